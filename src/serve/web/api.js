// SPDX-License-Identifier: Apache-2.0
// The server's side: models and streamed chat completions. Every failure becomes a RequestError with a line to show.

import { loadKey } from "./store.js";

export class RequestError extends Error {
    constructor(message, status) {
        super(message);
        this.status = status; // 0 = no answer came
    }
}

const HINTS = {
    401: "An API key is needed",
    403: "Not allowed",
    404: "Not found",
    413: "The request is too large",
    429: "The server is busy",
    503: "The server is not ready",
    504: "The server took too long",
};

function describe(status, message) {
    const hint = HINTS[status] || (status >= 500 ? "The server failed" : "The request was refused");
    return message ? `${hint}: ${message}` : `${hint} (status ${status}).`;
}

async function request(path, options) {
    const headers = { ...options.headers }, key = loadKey();
    if (key) headers.Authorization = "Bearer " + key;
    let response;
    try {
        response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        if (key && !/^[\x21-\x7e]*$/.test(key)) throw new RequestError("The API key holds characters that no key can have.", 401);
        throw new RequestError("The server cannot be reached. Is it still running?", 0);
    }
    if (response.ok) return response;
    let message = "";
    try {
        const body = await response.json();
        message = typeof body.error === "string" ? body.error : body.error.message;
    } catch (error) {
        // No JSON: the status has to do.
    }
    throw new RequestError(describe(response.status, message), response.status);
}

/** [{id, isLoaded, context, parameters}] */
export async function fetchModels() {
    const body = await (await request("v1/models", {})).json();
    return (Array.isArray(body.data) ? body.data : []).map((m) => ({
        id: String(m.id),
        isLoaded: !m.status || m.status.value === "loaded",
        context: m.max_model_len || (m.meta && m.meta.n_ctx) || 0,
        parameters: (m.meta && m.meta.n_params) || 0,
    }));
}

/** What the server takes for settings that a request leaves out, or {}. */
export async function fetchDefaults() {
    try {
        const body = await (await request("props", {})).json();
        return body.default_generation_settings.params || {};
    } catch (error) {
        return {};
    }
}

/** The events of a stream: the text behind each `data:`. */
async function* readEvents(body) {
    const reader = body.getReader(), decoder = new TextDecoder();
    let rest = "";
    try {
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
            rest = lines.pop();
            for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}

/** Yields {reasoning}, {content}, {finish} and {usage, timings} as they come. */
export async function* streamChat(body, signal) {
    const response = await request("v1/chat/completions", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
        signal,
    });
    let isComplete = false;
    try {
        for await (const data of readEvents(response.body)) {
            if (data === "[DONE]") {
                isComplete = true;
                break;
            }
            const event = JSON.parse(data);
            if (event.error) throw new RequestError(describe(500, event.error.message), 500);
            const choice = event.choices && event.choices[0], delta = (choice && choice.delta) || {};
            if (delta.reasoning_content) yield { reasoning: delta.reasoning_content };
            if (delta.content) yield { content: delta.content };
            if (choice && choice.finish_reason) yield { finish: choice.finish_reason };
            if (event.usage) yield { usage: event.usage, timings: event.timings };
        }
    } catch (error) {
        if (error.name === "AbortError" || error instanceof RequestError) throw error;
        throw new RequestError("The connection broke before the answer was complete.", 0);
    }
    if (!isComplete) throw new RequestError("The connection broke before the answer was complete.", 0);
}
