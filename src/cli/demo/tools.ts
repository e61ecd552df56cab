/*
 * The demo's own tools: small, with real behaviour behind services.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Permission from "../../tools/Permission.ts"
import type { PermissionPolicy } from "../../tools/PermissionPolicy.ts"
import * as Tool from "../../tools/Tool.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"

/** Measurements the demo knows, in degrees Celsius. */
class Stations extends Context.Service<Stations, {
  readonly temperature: (station: string) => Effect.Effect<number, UnknownStation>
}>()("agcore/cli/demo/tools/Stations") {
  static readonly layer: Layer.Layer<Stations> = Layer.succeed(Stations, {
    temperature: (station) =>
      Effect.suspend(() => {
        const celsius = MEASUREMENTS.get(station)
        if (celsius !== undefined) return Effect.succeed(celsius)
        const similar = Array.from(MEASUREMENTS.keys()).find((name) => name.startsWith(station))
        return Effect.fail(
          new UnknownStation({ station, hint: similar === undefined ? "" : `did you mean "${similar}"?` })
        )
      })
  })
}

const MEASUREMENTS: ReadonlyMap<string, number> = new Map([
  ["Oslo", 4],
  ["Lima Airport", 22],
  ["Cairo", 31],
  ["Paris", 15],
  ["Tokyo", 18]
])

class UnknownStation
  extends Schema.TaggedError<UnknownStation>("agcore/cli/demo/tools/UnknownStation")("UnknownStation", {
    station: Schema.String,
    hint: Schema.String
  })
{}

class GetWeather extends Tool.Service<GetWeather>()("get_weather", {
  description: "The weather at a station now: its temperature in degrees Celsius",
  parameters: Schema.Struct({ station: Schema.String.annotate({ description: "The station's name" }) }),
  success: Schema.Struct({ station: Schema.String, celsius: Schema.Finite }),
  failure: UnknownStation,
  permissions: [Permission.Network],
  category: "demo",
  readonly: true
}) {}

class ToFahrenheit extends Tool.Service<ToFahrenheit>()("to_fahrenheit", {
  description: "Converts a temperature from Celsius to Fahrenheit",
  parameters: Schema.Struct({ celsius: Schema.Finite }),
  success: Schema.Struct({ fahrenheit: Schema.Finite }),
  permissions: [Permission.Read],
  category: "demo",
  readonly: true
}) {}

class EraseRecords extends Tool.Service<EraseRecords>()("erase_records", {
  description: "Erases all weather records",
  permissions: [Permission.Delete],
  category: "demo"
}) {}

/** The registry of the demo. It needs a policy; the default one denies `erase_records`. */
export const layer: Layer.Layer<ToolRegistry.ToolRegistry, never, PermissionPolicy> = ToolRegistry.layer(
  GetWeather,
  ToFahrenheit,
  EraseRecords
).pipe(
  Layer.provide([
    GetWeather.layer(Effect.fnUntraced(function*({ station }) {
      const stations = yield* Stations
      return { station, celsius: yield* stations.temperature(station) }
    })),
    ToFahrenheit.layer(({ celsius }) => Effect.succeed({ fahrenheit: Math.round((celsius * 9 / 5 + 32) * 10) / 10 })),
    EraseRecords.layer(() => Effect.void)
  ]),
  Layer.provide(Stations.layer)
)
