// Vercel's AI SDK, with its provider for servers that speak as OpenAI does.

import { createRequire } from "node:module";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, jsonSchema, Output, streamText, tool } from "ai";
import * as the from "../scenarios.mjs";
import { answered, called, chosen, collected, holds, raised, same, told } from "../scenarios.mjs";

const { version } = createRequire(import.meta.url)("ai/package.json");
const made = (fields = {}) =>
  createOpenAICompatible({
    name: "gateway",
    baseURL: `${told.url}/v1`,
    apiKey: told.secret,
    includeUsage: true,
    supportsStructuredOutputs: true,
    ...fields,
  });
const gateway = made();
const patient = made({ apiKey: told.patient });

const asked = (model = gateway(the.TEXT)) => ({
  model,
  system: the.SYSTEM,
  prompt: the.GREETING,
  maxOutputTokens: 12,
  temperature: 0,
  maxRetries: 0,
});
const calling = () => ({
  ...asked(gateway(the.CALLS)),
  maxOutputTokens: 200,
  tools: { weather: tool({ description: the.DESCRIPTION, inputSchema: jsonSchema(the.SCHEMA) }) },
  toolChoice: "required",
  providerOptions: { gateway: { parallel_tool_calls: false } },
});
const choosing = () => ({
  ...asked(),
  maxOutputTokens: 200,
  output: Output.object({ schema: jsonSchema(the.SCHEMA) }),
});

const tokens = (usage) => [usage.inputTokens, usage.outputTokens, usage.totalTokens];

/** A stream's parts, with the error that it ended in raised, as an application would. */
async function read(stream, seen = []) {
  for await (const part of stream.fullStream) {
    if (part.type === "error") throw part.error;
    seen.push(part);
  }
  return seen;
}

function calledOnce(calls) {
  same("calls", calls.length, 1);
  called(calls[0].toolName, calls[0].input);
}

await the.play(`ai ${version}`, {
  async generate() {
    const answer = await generateText(asked());
    answered(answer.text, answer.finishReason, tokens(answer.usage));
    same("model", answer.response.modelId, the.TEXT);
  },
  async stream() {
    const stream = streamText(asked());
    const parts = await read(stream);
    holds("parts", parts.filter((part) => part.type === "text-delta").length > 3, parts.length);
    answered(await stream.text, await stream.finishReason, tokens(await stream.usage));
  },
  async stream_without_usage() {
    const stream = streamText(asked(made({ includeUsage: false })(the.TEXT)));
    await read(stream);
    same("usage that nobody asked for", (await stream.usage).totalTokens ?? null, null);
  },
  async stream_left() {
    const left = new AbortController();
    const stream = streamText({ ...asked(), maxOutputTokens: 2_000, abortSignal: left.signal });
    for await (const _ of stream.textStream) left.abort();
  },
  async tools() {
    const answer = await generateText(calling());
    same("end", answer.finishReason, "tool-calls");
    calledOnce(answer.toolCalls);
  },
  async tools_stream() {
    const stream = streamText(calling());
    await read(stream);
    same("end", await stream.finishReason, "tool-calls");
    calledOnce(await stream.toolCalls);
  },
  async schema() {
    chosen((await generateText(choosing())).output);
  },
  async schema_stream() {
    const stream = streamText(choosing());
    await read(stream);
    chosen(await stream.output);
  },
  async completion() {
    const { system, ...plain } = asked(gateway.completionModel(the.TEXT));
    const answer = await generateText(plain);
    answered(answer.text, answer.finishReason, tokens(answer.usage));
  },
  async completion_stream() {
    const { system, ...plain } = asked(gateway.completionModel(the.TEXT));
    const stream = streamText(plain);
    await read(stream);
    answered(await stream.text, await stream.finishReason, tokens(await stream.usage));
  },
  async embeddings() {
    const answer = await embedMany({ model: gateway.embeddingModel(the.VECTORS), values: ["one", the.GREETING], maxRetries: 0 });
    same("vectors", answer.embeddings.map((vector) => vector.length), [64, 64]);
    holds("tokens", answer.usage.tokens > 0, answer.usage);
  },
  async wrong_key() {
    const model = made({ apiKey: "sk-wrong-0123456789" })(the.TEXT);
    same("status", (await raised(APICallError, () => generateText(asked(model)))).statusCode, 401);
  },
  async unknown_model() {
    same("status", (await raised(APICallError, () => generateText(asked(gateway("none"))))).statusCode, 404);
  },
  async bad_field() {
    const error = await raised(APICallError, () => generateText({ ...asked(), temperature: 9 }));
    same("status", [error.statusCode, error.data.error.code], [422, "out_of_range"]);
  },
  async long_prompt() {
    for (const ask of [generateText, async (fields) => read(streamText({ ...fields, onError() {} }))]) {
      const error = await raised(APICallError, () => ask({ ...asked(), prompt: the.LONG }));
      same("status", [error.statusCode, error.data.error.code], [400, "context_length_exceeded"]);
    }
  },
  async rate_limit() {
    const error = await raised(APICallError, () => generateText(asked(made({ apiKey: told.poor })(the.TEXT))));
    same("status", [error.statusCode, error.data.error.code], [429, "rate_limit_exceeded"]);
  },
  async provider_fails() {
    const error = await raised(APICallError, () => generateText(asked(gateway(the.FAILING))));
    same("status", [error.statusCode, error.isRetryable], [502, true]);
  },
  async broken_stream() {
    const parts = [];
    const error = await raised(Object, () => read(streamText({ ...asked(gateway(the.FLAKY)), onError() {} }), parts));
    holds("error", JSON.stringify(error.message ?? error).includes("broke off"), JSON.stringify(error));
    const text = parts.map((part) => (part.type === "text-delta" ? part.text : "")).join("");
    the.spoken(text, the.FLAKY_WORDS);
  },
  async commented_stream() {
    const stream = streamText(asked(patient(the.LATE)));
    await read(stream);
    the.spoken(await stream.text, the.LATE_WORDS);
  },
  async commented_failure() {
    const error = await raised(Object, () => read(streamText({ ...asked(patient(the.SILENT)), onError() {} })));
    holds("error", error.code === "upstream_timeout", JSON.stringify(error));
  },
});
