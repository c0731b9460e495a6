// SPDX-License-Identifier: Apache-2.0
// What is kept in this browser: conversations (one entry of localStorage each), settings, the API key. Everything read
// from storage or from a file is checked and put into shape first, since people edit files and storage can be old.
//
//   chat     {id, title, created, updated, system, messages}
//   message  {role: "user", content}  or  {role: "assistant", answers: [answer], chosen}
//   answer   {content, reasoning, thoughtMs, model, finish: "stop" | "length" | "stopped" | "error" | "running", error, stats}

const CHAT = "mlxcel.chat.", SETTINGS = "mlxcel.settings", KEY = "mlxcel.key";
const FORMAT = "mlxcel-chats";

const chats = new Map();
let onFull = () => {};

export const NUMBERS = {
    temperature: { field: "temperature", min: 0, max: 100 },
    top_p: { field: "top_p", min: 0, max: 1 },
    top_k: { field: "top_k", min: 0, max: 1e6, whole: true },
    min_p: { field: "min_p", min: 0, max: 1 },
    repetition_penalty: { field: "repetition_penalty", min: 0, max: 100 },
    max_tokens: { field: "max_tokens", min: 1, max: 1e7, whole: true },
    seed: { field: "seed", min: 0, max: Number.MAX_SAFE_INTEGER, whole: true },
};

/** The number in a text field, or null when it is empty or no number that may stand there. */
export function readNumber(name, text) {
    const rule = NUMBERS[name], value = Number(text);
    if (text === null || text === undefined || String(text).trim() === "" || !Number.isFinite(value)) return null;
    if (value < rule.min || value > rule.max || (rule.whole && !Number.isInteger(value))) return null;
    return value;
}

function write(name, value) {
    try {
        localStorage.setItem(name, value);
        return true;
    } catch (error) {
        onFull();
        return false;
    }
}

function read(name) {
    try {
        return JSON.parse(localStorage.getItem(name));
    } catch (error) {
        return null;
    }
}

/* ---- conversations ---- */

const text = (value) => (typeof value === "string" ? value : "");
const count = (value) => (Number.isFinite(value) && value >= 0 ? value : 0);

export function newId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => byte.toString(36).padStart(2, "0")).join("");
}

function shapeStats(raw) {
    if (!raw || typeof raw !== "object") return null;
    return {
        prompt: count(raw.prompt), cached: count(raw.cached), generated: count(raw.generated), rate: count(raw.rate),
        promptRate: count(raw.promptRate), isMeasuredHere: raw.isMeasuredHere === true,
    };
}

function shapeAnswer(raw) {
    const finish = ["stop", "length", "stopped", "error"].includes(raw.finish) ? raw.finish : "stopped";
    return {
        content: text(raw.content), reasoning: text(raw.reasoning), thoughtMs: count(raw.thoughtMs), model: text(raw.model),
        finish, error: text(raw.error), stats: shapeStats(raw.stats),
    };
}

function shapeMessage(raw) {
    if (!raw || typeof raw !== "object") return null;
    if (raw.role === "user") return { role: "user", content: text(raw.content) };
    if (raw.role !== "assistant") return null;
    const list = Array.isArray(raw.answers) ? raw.answers.filter((a) => a && typeof a === "object") : [];
    const answers = list.length ? list.map(shapeAnswer) : [shapeAnswer({ finish: "stop", ...raw })];
    const chosen = Number.isInteger(raw.chosen) && raw.chosen >= 0 && raw.chosen < answers.length ? raw.chosen : answers.length - 1;
    return { role: "assistant", answers, chosen };
}

function shapeChat(raw) {
    if (!raw || typeof raw !== "object" || !Array.isArray(raw.messages)) return null;
    const system = raw.messages.find((m) => m && m.role === "system");
    const chat = {
        id: /^[A-Za-z0-9_-]{1,64}$/.test(raw.id) ? raw.id : newId(),
        title: text(raw.title).slice(0, 200),
        created: count(raw.created) || Date.now(),
        updated: count(raw.updated) || Date.now(),
        system: text(raw.system) || text(system && system.content),
        messages: raw.messages.map(shapeMessage).filter(Boolean),
    };
    if (!chat.title) nameChat(chat);
    return chat;
}

/** The title that a conversation has until someone gives it one. */
export function nameChat(chat) {
    const first = chat.messages.find((m) => m.role === "user");
    const line = first ? first.content.trim().split("\n")[0] : "";
    chat.title = line.length > 60 ? line.slice(0, 59).trimEnd() + "…" : line || "New chat";
}

export function newChat(system) {
    const now = Date.now();
    return { id: newId(), title: "New chat", created: now, updated: now, system, messages: [] };
}

export const getChat = (id) => chats.get(id);
export const listChats = () => [...chats.values()].sort((a, b) => b.updated - a.updated);

export function saveChat(chat) {
    chats.set(chat.id, chat);
    return write(CHAT + chat.id, JSON.stringify(chat));
}

export function deleteChat(id) {
    chats.delete(id);
    localStorage.removeItem(CHAT + id);
}

export function exportChats(list) {
    return JSON.stringify({ format: FORMAT, version: 1, exported: new Date().toISOString(), chats: list }, null, 1);
}

/** Takes an exported file, or a list of messages as `mlxcel run` saves it; returns how many conversations are new.
    Throws a readable Error. */
export function importChats(file, name) {
    let raw, n = 0;
    try {
        raw = JSON.parse(file);
    } catch (error) {
        throw new Error("This file is no JSON.");
    }
    let list = raw && raw.format === FORMAT ? raw.chats : null;
    if (Array.isArray(raw) && raw.every((m) => m && typeof m.role === "string")) list = [{ title: name, messages: raw }];
    if (raw && Array.isArray(raw.messages)) list = [raw];
    if (!Array.isArray(list)) throw new Error("This file holds no conversations.");
    for (const chat of list.map(shapeChat)) {
        if (!chat) continue;
        const known = chats.get(chat.id);
        if (known && JSON.stringify(known.messages) === JSON.stringify(chat.messages)) continue;
        if (known) chat.id = newId();
        if (!saveChat(chat)) {
            deleteChat(chat.id);
            throw new Error(`The browser's storage is full: ${n} of ${list.length} conversations were taken.`);
        }
        n++;
    }
    return n;
}

/* ---- settings ---- */

export function loadSettings() {
    const raw = read(SETTINGS) || {}, settings = {
        theme: raw.theme === "light" || raw.theme === "dark" ? raw.theme : "auto",
        model: text(raw.model), system: text(raw.system), sidebarIsHidden: raw.sidebarIsHidden === true,
    };
    for (const name of Object.keys(NUMBERS)) settings[name] = readNumber(name, raw[name]);
    return settings;
}

export const saveSettings = (settings) => write(SETTINGS, JSON.stringify(settings));

export const loadKey = () => text(localStorage.getItem(KEY));
export function saveKey(key) {
    if (key) write(KEY, key);
    else localStorage.removeItem(KEY);
}

/** Reads everything. whenFull: called when something could not be kept. whenChanged(id): another tab changed this chat. */
export function openStore(whenFull, whenChanged) {
    onFull = whenFull;
    for (let i = 0; i < localStorage.length; i++) {
        const name = localStorage.key(i), chat = name.startsWith(CHAT) ? shapeChat(read(name)) : null;
        if (chat && name === CHAT + chat.id) chats.set(chat.id, chat);
    }
    window.addEventListener("storage", (event) => {
        if (!event.key || !event.key.startsWith(CHAT)) return;
        const id = event.key.slice(CHAT.length), chat = shapeChat(read(event.key));
        if (chat) chats.set(id, chat);
        else chats.delete(id);
        whenChanged(id);
    });
}
