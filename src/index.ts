/**
 * The tool system and automatic tool loop of LLM applications, as Effect services.
 *
 * @since 0.1.0
 */
export {}
