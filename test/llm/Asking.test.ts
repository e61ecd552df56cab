import { askingSuite } from "../suites/asking.ts"
import { drivers } from "./support.ts"

for (const driver of drivers) askingSuite(driver)
