// What the programs written with Node's clients share; see scenarios.py, whose twin it is.

export const [TEXT, CALLS, VECTORS] = ["noise", "eager", "vectors"];
export const [FAILING, FLAKY, LATE, SILENT] = ["failing", "flaky", "late", "silent"];
export const [FLAKY_WORDS, LATE_WORDS] = [5, 3];
export const LONG = "word ".repeat(5_000);

export const SYSTEM = "Be brief.";
export const GREETING = "Grüße, 世界! \u{1F44B}";
export const MESSAGES = [
  { role: "system", content: SYSTEM },
  { role: "user", content: GREETING },
];

const UNITS = ["celsius", "fahrenheit"];
export const SCHEMA = {
  type: "object",
  properties: { unit: { type: "string", enum: UNITS } },
  required: ["unit"],
  additionalProperties: false,
};
export const DESCRIPTION = "Tell the weather.";
export const TOOL = { type: "function", function: { name: "weather", description: DESCRIPTION, parameters: SCHEMA } };

export const told = JSON.parse(process.argv[2]);

class Mismatch extends Error {}

export function holds(what, condition, found) {
  if (!condition) throw new Mismatch(`${what}: ${found}`);
}

export function same(what, found, wanted) {
  const [seen, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  holds(what, seen === right, `${seen} instead of ${right}`);
}

/** Check an answer that was cut at its bound of 12 tokens. */
export function answered(text, end, [prompt, completion, total]) {
  holds("text", text, JSON.stringify(text));
  same("end", end, "length");
  same("completion tokens", completion, 12);
  holds("prompt tokens", prompt > 0 && total === prompt + 12, [prompt, completion, total]);
}

export function chosen(found) {
  holds("object", UNITS.includes(found.unit) && Object.keys(found).length === 1, JSON.stringify(found));
}

/** Check the call of the tool. */
export function called(name, given) {
  same("tool", name, "weather");
  chosen(typeof given === "string" ? JSON.parse(given) : given);
}

/** Return what asking raised, which has to be of this class. */
export async function raised(kind, ask) {
  let found;
  try {
    found = await ask();
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  throw new Mismatch(`${JSON.stringify(found)} instead of ${kind.name}`);
}

/** Check how many words came. */
export function spoken(text, words) {
  same("words", text.trim().split(/\s+/).length, words);
}

export async function collected(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

export async function play(version, scenarios) {
  console.log(`VERSION ${version}`);
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      await scenario();
      console.log(`PASS ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}: ${error.constructor.name}: ${String(error.message).replace(/\s+/g, " ").slice(0, 400)}`);
    }
  }
}
