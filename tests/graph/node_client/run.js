"use strict";
// Answers requests with a graph: node run.js model.onnx requests.json answers.json
//
// Requests and answers are lists; each maps names to tensors {type, dims, data}. Numbers are the
// base64 of their bytes, so that no bit is lost on the way; texts are lists.

const fs = require("node:fs");
const ort = require("onnxruntime-node");

const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array };

function decode({ type, dims, data }) {
  if (type === "string") {
    return new ort.Tensor(type, data, dims);
  }
  const bytes = Uint8Array.from(Buffer.from(data, "base64"));
  return new ort.Tensor(type, new ARRAYS[type](bytes.buffer), dims);
}

function encode({ type, dims, data }) {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { type, dims, data: bytes.toString("base64") };
}

function map(tensors, change) {
  return Object.fromEntries(Object.entries(tensors).map(([name, one]) => [name, change(one)]));
}

async function main([model, requests, answers]) {
  const session = await ort.InferenceSession.create(model);
  const given = [];
  for (const request of JSON.parse(fs.readFileSync(requests, "utf8"))) {
    given.push(map(await session.run(map(request, decode)), encode));
  }
  fs.writeFileSync(answers, JSON.stringify(given));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
