import { cycleSuite } from "../suites/cycle.ts"
import { drivers } from "./support.ts"

for (const driver of drivers) cycleSuite(driver)
