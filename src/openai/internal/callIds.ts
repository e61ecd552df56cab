/*
 * Tool call ids as a server accepts them.
 *
 * The new id is computed from the old one alone, so a call and its result, in this request and the next, agree.
 */
import type { ProviderProfile } from "../ProviderProfile.ts"

export const rewrite = (id: string, rule: ProviderProfile["callIds"]): string => {
  switch (rule) {
    case "any":
      return id
    case "short":
      return /^[A-Za-z0-9_-]{1,40}$/.test(id) ? id : `call_${digest(id)}`
    case "nine-alphanumerics":
      return /^[A-Za-z0-9]{9}$/.test(id) ? id : digest(id)
  }
}

const LENGTH = 9

/** FNV-1a in 64 bits, as nine digits of base 36: 46 bits, plenty for the calls of one conversation. */
const digest = (text: string): string => {
  let hash = 0xcbf29ce484222325n
  for (let i = 0; i < text.length; i++) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(text.charCodeAt(i))) * 0x100000001b3n)
  }
  return hash.toString(36).padStart(LENGTH, "0").slice(-LENGTH)
}
