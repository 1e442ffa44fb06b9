// The examples of README.md. They import the package by its name.

import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { test } from "node:test";

test("README.md", async () => {
  const page = await readFile(new URL("../../README.md", import.meta.url), "utf8");
  const examples = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map((match) => match[1]!);
  assert.equal(examples.length, 2);
  for (const [number, example] of examples.entries()) {
    const file = new URL(`example${number}.mjs`, import.meta.url);
    await writeFile(file, example);
    await import(file.href);
    await rm(file);
  }
});
