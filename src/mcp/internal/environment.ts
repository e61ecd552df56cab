/**
 * What a server's process gets of our environment: a short list, never the whole of it, for the environment is where
 * secrets live.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"

/** What programs need to find their files and other programs. */
const POSIX = "HOME LOGNAME PATH SHELL TERM USER TMPDIR LANG"

/** What Windows needs to run any program. */
const WINDOWS = "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP USERNAME " +
  "USERPROFILE OS"

const INHERITED: ReadonlyArray<string> = `${POSIX} ${WINDOWS}`.split(" ")

/** The inherited variables that are set. */
export const inherited: Effect.Effect<Record<string, string>> = Effect.suspend(() => {
  // The process's own environment, whatever provider the application reads its configuration from.
  const provider = ConfigProvider.fromEnv()
  return Effect.map(
    Effect.forEach(INHERITED, (name) => Effect.orElseSucceed(provider.load([name]), () => undefined)),
    (nodes) => {
      const env: Record<string, string> = {}
      for (const [index, name] of INHERITED.entries()) {
        const value = nodes[index]?.value
        // A value that starts so would define a shell function.
        if (value !== undefined && !value.startsWith("()")) env[name] = value
      }
      return env
    }
  )
})
