import { assert, describe, it } from "@effect/vitest"
import { ProviderProfile } from "agcore/openai"

describe("ProviderProfile", () => {
  // verifies: openai.profile
  describe("fromBaseUrl", () => {
    it.each([
      ["https://api.openai.com/v1", ProviderProfile.openai],
      ["https://mine.openai.azure.com/openai/v1", ProviderProfile.azure],
      ["https://mine.services.ai.azure.com/openai/v1", ProviderProfile.azure],
      ["https://openrouter.ai/api/v1", ProviderProfile.openRouter],
      ["https://api.groq.com/openai/v1", ProviderProfile.groq],
      ["https://api.deepseek.com", ProviderProfile.deepSeek],
      ["https://api.mistral.ai/v1", ProviderProfile.mistral],
      ["https://generativelanguage.googleapis.com/v1beta/openai/", ProviderProfile.gemini],
      ["https://api.together.xyz/v1", ProviderProfile.together],
      ["http://localhost:11434/v1", ProviderProfile.ollama],
      ["http://192.168.1.7:1234/v1", ProviderProfile.lmStudio],
      ["http://localhost:8000/v1", ProviderProfile.tolerant],
      ["https://api.openai.com.example.org/v1", ProviderProfile.tolerant],
      ["https://notapi.openai.com/v1", ProviderProfile.tolerant],
      ["not a url", ProviderProfile.tolerant]
    ])("of %s is the preset it plainly belongs to", (baseUrl, profile) => {
      assert.strictEqual(ProviderProfile.fromBaseUrl(baseUrl), profile)
    })
  })
})
