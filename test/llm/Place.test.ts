import { placeSuite } from "../suites/place.ts"
import { drivers } from "./support.ts"

for (const driver of drivers) placeSuite(driver)
