/**
 * The tool system and automatic tool loop of LLM applications, as Effect services.
 *
 * @since 0.1.0
 */

/**
 * @since 0.1.0
 */
export * as AuditEntry from "./tools/AuditEntry.ts"

/**
 * @since 0.1.0
 */
export * as AuditError from "./tools/AuditError.ts"

/**
 * @since 0.1.0
 */
export * as AuditLog from "./tools/AuditLog.ts"

/**
 * @since 0.1.0
 */
export * as Budget from "./llm/Budget.ts"

/**
 * @since 0.1.0
 */
export * as Compaction from "./llm/Compaction.ts"

/**
 * @since 0.1.0
 */
export * as CompactionError from "./llm/CompactionError.ts"

/**
 * @since 0.1.0
 */
export * as CompactionStrategy from "./llm/CompactionStrategy.ts"

/**
 * @since 0.1.0
 */
export * as CycleConfig from "./llm/CycleConfig.ts"

/**
 * @since 0.1.0
 */
export * as CycleError from "./llm/CycleError.ts"

/**
 * @since 0.1.0
 */
export * as CycleEvent from "./llm/CycleEvent.ts"

/**
 * @since 0.1.0
 */
export * as CycleResponse from "./llm/CycleResponse.ts"

/**
 * @since 0.1.0
 */
export * as CycleStore from "./llm/CycleStore.ts"

/**
 * @since 0.1.0
 */
export * as CycleStoreError from "./llm/CycleStoreError.ts"

/**
 * @since 0.1.0
 */
export * as History from "./llm/History.ts"

/**
 * @since 0.1.0
 */
export * as LlmCycle from "./llm/LlmCycle.ts"

/**
 * @since 0.1.0
 */
export * as ObjectResponse from "./llm/ObjectResponse.ts"

/**
 * @since 0.1.0
 */
export * as Permission from "./tools/Permission.ts"

/**
 * @since 0.1.0
 */
export * as PermissionPolicy from "./tools/PermissionPolicy.ts"

/**
 * @since 0.1.0
 */
export * as Pricing from "./llm/Pricing.ts"

/**
 * @since 0.1.0
 */
export * as Question from "./tools/Question.ts"

/**
 * @since 0.1.0
 */
export * as ReadResult from "./tools/ReadResult.ts"

/**
 * @since 0.1.0
 */
export * as RegistrationError from "./tools/RegistrationError.ts"

/**
 * @since 0.1.0
 */
export * as ResultStore from "./tools/ResultStore.ts"

/**
 * @since 0.1.0
 */
export * as ResultStoreError from "./tools/ResultStoreError.ts"

/**
 * @since 0.1.0
 */
export * as SavedCycle from "./llm/SavedCycle.ts"

/**
 * @since 0.1.0
 */
export * as TokenEstimate from "./llm/TokenEstimate.ts"

/**
 * @since 0.1.0
 */
export * as StopCondition from "./llm/StopCondition.ts"

/**
 * @since 0.1.0
 */
export * as SubAgent from "./llm/SubAgent.ts"

/**
 * @since 0.1.0
 */
export * as Tool from "./tools/Tool.ts"

/**
 * @since 0.1.0
 */
export * as ToolContext from "./tools/ToolContext.ts"

/**
 * @since 0.1.0
 */
export * as ToolError from "./tools/ToolError.ts"

/**
 * @since 0.1.0
 */
export * as ToolInvocation from "./tools/ToolInvocation.ts"

/**
 * @since 0.1.0
 */
export * as ToolOutput from "./tools/ToolOutput.ts"

/**
 * @since 0.1.0
 */
export * as ToolRegistry from "./tools/ToolRegistry.ts"

/**
 * @since 0.1.0
 */
export * as ToolSettings from "./tools/ToolSettings.ts"

/**
 * @since 0.1.0
 */
export * as ToolSnapshot from "./tools/ToolSnapshot.ts"

/**
 * @since 0.1.0
 */
export * as ToolkitBridge from "./tools/ToolkitBridge.ts"
