// The official OpenAI client for Node.

import OpenAI from "openai";
import { VERSION } from "openai/version";
import * as the from "../scenarios.mjs";
import { answered, called, chosen, collected, holds, raised, same, told } from "../scenarios.mjs";

const made = (fields = {}) => new OpenAI({ baseURL: `${told.url}/v1`, apiKey: told.secret, maxRetries: 0, ...fields });
const client = made();
const chat = client.chat.completions;
const patient = made({ apiKey: told.patient }).chat.completions;

const SHORT = { model: the.TEXT, messages: the.MESSAGES, max_tokens: 12, temperature: 0 };
const CALLING = {
  ...SHORT,
  model: the.CALLS,
  max_tokens: 200,
  tools: [the.TOOL],
  tool_choice: "required",
  parallel_tool_calls: false,
};
const CHOOSING = {
  ...SHORT,
  max_tokens: 200,
  response_format: { type: "json_schema", json_schema: { name: "choice", schema: the.SCHEMA, strict: true } },
};
const USAGE = { include_usage: true };

const tokens = (usage) => [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens];
const said = (choices) => choices.map((choice) => choice.delta.content ?? "").join("");

function streamed(chunks) {
  const choices = chunks.flatMap((chunk) => chunk.choices);
  same("models", [...new Set(chunks.map((chunk) => chunk.model))], [the.TEXT]);
  same("ids", new Set(chunks.map((chunk) => chunk.id)).size, 1);
  same("ends", choices.map((choice) => choice.finish_reason).filter(Boolean), ["length"]);
  holds("text", said(choices), chunks.length);
  return said(choices);
}

function calledOnce(choice) {
  same("end", choice.finish_reason, "tool_calls");
  same("calls", choice.message.tool_calls.length, 1);
  called(choice.message.tool_calls[0].function.name, choice.message.tool_calls[0].function.arguments);
}

await the.play(`openai ${VERSION}`, {
  async chat() {
    const { data: answer, request_id } = await chat.create(SHORT).withResponse();
    answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage));
    same("model", answer.model, the.TEXT);
    holds("request id", request_id, request_id);
  },
  async chat_stream() {
    const chunks = await collected(await chat.create({ ...SHORT, stream: true }));
    streamed(chunks);
    holds("usage that nobody asked for", !chunks.some((chunk) => chunk.usage), "there");
  },
  async chat_stream_with_usage() {
    const chunks = await collected(await chat.create({ ...SHORT, stream: true, stream_options: USAGE }));
    const last = chunks.pop();
    answered(streamed(chunks), "length", tokens(last.usage));
    same("choices beside the usage", last.choices, []);
  },
  async chat_stream_accumulated() {
    const answer = await chat.stream({ ...SHORT, stream_options: USAGE }).finalChatCompletion();
    answered(answer.choices[0].message.content, answer.choices[0].finish_reason, tokens(answer.usage));
  },
  async chat_stream_left() {
    for await (const chunk of await chat.create({ ...SHORT, max_tokens: 2_000, stream: true })) {
      holds("chunk", chunk.id, chunk);
      break;
    }
  },
  async tools() {
    calledOnce((await chat.create(CALLING)).choices[0]);
  },
  async tools_stream() {
    calledOnce((await chat.stream(CALLING).finalChatCompletion()).choices[0]);
  },
  async schema() {
    chosen(JSON.parse((await chat.create(CHOOSING)).choices[0].message.content));
  },
  async completion() {
    const answer = await client.completions.create({ model: the.TEXT, prompt: the.GREETING, max_tokens: 12, temperature: 0 });
    answered(answer.choices[0].text, answer.choices[0].finish_reason, tokens(answer.usage));
  },
  async completion_stream() {
    const asked = { model: the.TEXT, prompt: the.GREETING, max_tokens: 12, temperature: 0, stream: true };
    const choices = (await collected(await client.completions.create(asked))).flatMap((chunk) => chunk.choices);
    same("ends", choices.map((choice) => choice.finish_reason).filter(Boolean), ["length"]);
    holds("text", choices.map((choice) => choice.text).join(""), choices.length);
  },
  async embeddings() {
    const input = ["one", the.GREETING];
    const whole = await client.embeddings.create({ model: the.VECTORS, input });
    const plain = await client.embeddings.create({ model: the.VECTORS, input, encoding_format: "float" });
    same("vectors", whole.data.map((vector) => [vector.index, vector.embedding.length]), [[0, 64], [1, 64]]);
    const apart = whole.data[1].embedding.map((number, place) => Math.abs(number - plain.data[1].embedding[place]));
    holds("vectors of one text", Math.max(...apart) < 1e-4, "differ by their encoding");
  },
  async models() {
    const listed = (await collected(client.models.list())).map((model) => model.id);
    holds("models", listed.includes(the.TEXT) && listed.includes(the.VECTORS), listed);
    same("one model", (await client.models.retrieve(the.TEXT)).id, the.TEXT);
  },
  async wrong_key() {
    const wrong = made({ apiKey: "sk-wrong-0123456789" }).chat.completions;
    same("code", (await raised(OpenAI.AuthenticationError, () => wrong.create(SHORT))).code, "invalid_api_key");
  },
  async unknown_model() {
    const error = await raised(OpenAI.NotFoundError, () => chat.create({ ...SHORT, model: "none" }));
    same("code", [error.code, error.param], ["model_not_found", "model"]);
  },
  async bad_field() {
    const error = await raised(OpenAI.UnprocessableEntityError, () => chat.create({ ...SHORT, temperature: 9 }));
    same("code", [error.code, error.param], ["out_of_range", "temperature"]);
  },
  async long_prompt() {
    const messages = [{ role: "user", content: the.LONG }];
    for (const stream of [false, true]) {
      const error = await raised(OpenAI.BadRequestError, () => chat.create({ ...SHORT, messages, stream }));
      same("code", error.code, "context_length_exceeded");
    }
  },
  async rate_limit() {
    const poor = made({ apiKey: told.poor }).chat.completions;
    same("code", (await raised(OpenAI.RateLimitError, () => poor.create(SHORT))).code, "rate_limit_exceeded");
  },
  async provider_fails() {
    const error = await raised(OpenAI.InternalServerError, () => chat.create({ ...SHORT, model: the.FAILING }));
    same("code", [error.status, error.code], [502, "upstream_unavailable"]);
  },
  async broken_stream() {
    const seen = [];
    const error = await raised(OpenAI.APIError, async () => {
      for await (const chunk of await chat.create({ ...SHORT, model: the.FLAKY, stream: true })) seen.push(...chunk.choices);
    });
    same("code", error.code, "stream_interrupted");
    the.spoken(said(seen), the.FLAKY_WORDS);
  },
  async commented_stream() {
    const chunks = await collected(await patient.create({ ...SHORT, model: the.LATE, stream: true }));
    the.spoken(said(chunks.flatMap((chunk) => chunk.choices)), the.LATE_WORDS);
  },
  async commented_failure() {
    const stream = await patient.create({ ...SHORT, model: the.SILENT, stream: true });
    same("code", (await raised(OpenAI.APIError, () => collected(stream))).code, "upstream_timeout");
  },
});
