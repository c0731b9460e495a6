// SPDX-License-Identifier: Apache-2.0
// The page: one conversation on show, any number of answers being written (one in each conversation), the composer, keys.

import { RequestError, fetchDefaults, fetchModels, streamChat } from "./api.js";
import { $, announce, h, toast } from "./dom.js";
import { MessageView, answerOf, grouped } from "./messages.js";
import { Settings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { NUMBERS, getChat, loadKey, loadSettings, nameChat, newChat, openStore, saveChat, saveKey, saveSettings } from "./store.js";

const SAVE_EVERY_MS = 2000, NEAR_END = 60;
const STARTERS = ["Tell me a story about the sea", "Write a letter from a traveller", "Explain how rain is made"];

const settings = loadSettings();
const runs = new Map(); // id of the conversation → {controller, answer, message}
let models = [];
let chat = null, views = [], isPinned = true, isDrawing = false;
let sidebar = null, panel = null, wasToldOfFull = false;

const modelId = () => $("model").value;
const currentModel = () => models.find((m) => m.id === modelId());
const isBusy = () => runs.has(chat.id);

/* ---- showing ---- */

function updateMessage(view) {
    view.update(view.message === chat.messages[chat.messages.length - 1], isBusy());
}

function draw() {
    isDrawing = false;
    if (views.length) updateMessage(views[views.length - 1]);
    showContext();
    if (isPinned) $("scroll").scrollTop = $("scroll").scrollHeight;
    $("to-end").hidden = isPinned || !chat.messages.length;
}

/** Draws before the next frame; a page in the background draws when it is looked at. */
function drawSoon() {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(draw);
}

/** Brings the list of views in line with the messages. */
function showMessages() {
    const before = new Map(views.map((view) => [view.message, view]));
    views = chat.messages.map((message) => before.get(message) || new MessageView(message, actions));
    const roots = views.map((view) => view.root), list = $("messages");
    for (const child of [...list.children]) if (!roots.includes(child)) child.remove();
    roots.forEach((root, i) => list.children[i] !== root && list.insertBefore(root, list.children[i] || null));
    views.forEach(updateMessage);
    $("welcome").hidden = chat.messages.length > 0;
    showState();
    draw();
}

/** What depends on whether an answer is being written. */
function showState() {
    const busy = isBusy();
    if (busy && document.activeElement === $("send")) $("message").focus();
    if (!busy && document.activeElement === $("stop")) $("message").focus();
    $("send").hidden = busy;
    $("stop").hidden = !busy;
    $("send").disabled = !$("message").value.trim();
    $("hint").textContent = busy ? "Esc stops" : "Enter sends, Shift+Enter begins a new line";
    $("title").textContent = chat.title;
    document.title = chat.messages.length ? `${chat.title} – mlxcel` : "mlxcel";
}

function showContext() {
    const model = currentModel(), last = chat.messages[chat.messages.length - 1];
    const stats = last && last.role === "assistant" ? answerOf(last).stats : null, used = stats ? stats.prompt + stats.generated : 0;
    const isKnown = used && stats.prompt && model && model.context;
    $("context").textContent = isKnown ? `${grouped(used)} of ${grouped(model.context)} tokens` : "";
    $("context").classList.toggle("full", Boolean(isKnown) && used > 0.9 * model.context);
}

function showChat(next) {
    chat = next;
    views = [];
    $("messages").replaceChildren();
    isPinned = true;
    history.replaceState(null, "", chat.messages.length ? "#" + chat.id : location.pathname + location.search);
    showMessages();
    sidebar.update();
}

function startChat() {
    showChat(newChat(settings.system));
    sidebar.leave();
    $("message").focus();
}

function openChat(id) {
    const next = getChat(id);
    if (!next) return;
    showChat(next);
    sidebar.leave();
    if (!window.matchMedia("(pointer: coarse)").matches) $("message").focus();
}

/* ---- answers ---- */

function keep(which) {
    which.updated = Date.now();
    saveChat(which);
}

/** What the server gets to read: everything before the message, and with `goesOn` what it says so far. */
function messagesFor(which, message, goesOn) {
    const list = which.system.trim() ? [{ role: "system", content: which.system }] : [];
    for (const m of which.messages) {
        if (m === message && !goesOn) break;
        const content = m.role === "user" ? m.content : answerOf(m).content;
        if (m.role === "user" || content) list.push({ role: m.role, content });
        if (m === message) break;
    }
    return list;
}

function requestBody(which, message, goesOn) {
    const body = { model: modelId(), messages: messagesFor(which, message, goesOn) };
    for (const [name, rule] of Object.entries(NUMBERS)) if (settings[name] !== null) body[rule.field] = settings[name];
    if (goesOn) body.continue_final_message = true;
    if (!body.model) delete body.model;
    return body;
}

/** The server's own figures, once it has told them. */
function takeStats(answer, event) {
    const usage = event.usage, timings = event.timings || {}, details = usage.prompt_tokens_details || {};
    answer.stats = {
        prompt: usage.prompt_tokens || 0, cached: details.cached_tokens || 0, generated: usage.completion_tokens || 0,
        rate: timings.predicted_per_second || answer.stats.rate, promptRate: timings.prompt_per_second || 0,
        isMeasuredHere: !timings.predicted_per_second,
    };
}

async function readAnswer(run, body) {
    const { answer, which } = run, began = performance.now();
    let first = 0, n = 0, saved = began;
    answer.stats = { prompt: 0, cached: 0, generated: 0, rate: 0, promptRate: 0, isMeasuredHere: true };
    for await (const event of streamChat(body, run.controller.signal)) {
        const now = performance.now();
        if (event.content || event.reasoning) {
            first = first || now;
            n++;
            answer.stats.generated = n;
            answer.stats.rate = n > 2 ? (n - 1) / ((now - first) / 1000) : 0;
        }
        if (event.reasoning) {
            answer.reasoning += event.reasoning;
            answer.thoughtMs = now - began;
        }
        if (event.content) answer.content += event.content;
        if (event.finish) run.finish = event.finish === "length" ? "length" : "stop";
        if (event.usage) takeStats(answer, event);
        if (now - saved > SAVE_EVERY_MS) {
            keep(which);
            saved = now;
        }
        if (which === chat) drawSoon();
    }
}

/** Has an answer written. Failures are shown in its place. */
async function write(which, message, goesOn) {
    if (runs.has(which.id)) return;
    const answer = answerOf(message), run = { controller: new AbortController(), which, answer, message, finish: "stop" };
    const body = requestBody(which, message, goesOn);
    answer.finish = "running";
    answer.error = "";
    answer.model = modelId();
    runs.set(which.id, run);
    keep(which);
    if (which === chat) {
        isPinned = true;
        showMessages();
    }
    sidebar.update();
    let needsKey = false;
    try {
        await readAnswer(run, body);
        answer.finish = run.finish;
    } catch (error) {
        if (error.name === "AbortError") {
            answer.finish = "stopped";
        } else {
            answer.finish = "error";
            answer.error = error instanceof RequestError ? error.message : `The answer could not be read: ${error.message}`;
            needsKey = error.status === 401;
        }
    }
    runs.delete(which.id);
    if (getChat(which.id)) keep(which);
    if (which === chat) showMessages();
    sidebar.update();
    announce(answer.finish === "error" ? "" : answer.finish === "stopped" ? "Stopped." : "The answer is complete.");
    if (needsKey && which === chat && (await askKey(answer.error)) && chat === which) write(which, message, false);
}

const blankAnswer = () => ({ content: "", reasoning: "", thoughtMs: 0, model: modelId(), finish: "stopped", error: "", stats: null });

function addAnswer() {
    const message = { role: "assistant", answers: [blankAnswer()], chosen: 0 };
    chat.messages.push(message);
    history.replaceState(null, "", "#" + chat.id);
    write(chat, message, false);
}

function send(text) {
    if (!text.trim() || isBusy()) return;
    chat.messages.push({ role: "user", content: text.trim() });
    if (chat.messages.length === 1) nameChat(chat);
    addAnswer();
}

function stop() {
    const run = runs.get(chat.id);
    if (run) run.controller.abort();
}

const actions = {
    again(message) {
        if (isBusy()) return;
        if (message.role === "user") {
            addAnswer();
            return;
        }
        const failed = answerOf(message);
        if (failed.finish === "error" && !failed.content) message.answers[message.chosen] = blankAnswer();
        else message.chosen = message.answers.push(blankAnswer()) - 1;
        write(chat, message, false);
    },
    goOn(message) {
        write(chat, message, true);
    },
    chooseAnswer(message, n) {
        message.chosen = n;
        keep(chat);
        showMessages();
    },
    edit(message, text) {
        if (isBusy()) return;
        if (message.role === "assistant") {
            const answer = answerOf(message);
            answer.content = text;
            answer.finish = "stop";
            keep(chat);
            showMessages();
            return;
        }
        const at = chat.messages.indexOf(message), wasNamed = chat.title;
        chat.messages.length = at + 1;
        nameChat(chat);
        const ownName = chat.title === wasNamed;
        message.content = text.trim();
        if (at === 0 && ownName) nameChat(chat);
        else chat.title = wasNamed;
        addAnswer();
        $("message").focus();
    },
};

/* ---- the server ---- */

async function askKey(why) {
    const dialog = $("ask-key");
    if (dialog.open || $("settings").open) return false;
    $("ask-key-detail").textContent = loadKey() ? why : "It is kept in this browser and sent to this server only.";
    $("asked-key").value = "";
    dialog.returnValue = "";
    dialog.showModal();
    $("asked-key").focus();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
    const key = $("asked-key").value.trim();
    $("message").focus();
    if (dialog.returnValue !== "yes" || !key) return false;
    saveKey(key);
    await loadModels();
    return true;
}

function describeModel() {
    const model = currentModel(), parts = [];
    if (!model) return "";
    if (model.parameters >= 1e9) parts.push((model.parameters / 1e9).toFixed(1) + " billion parameters");
    else if (model.parameters) parts.push(Math.round(model.parameters / 1e6) + " million parameters");
    if (model.context) parts.push("a context of " + grouped(model.context) + " tokens");
    return parts.length ? `${model.id} has ${parts.join(" and ")}.` : model.isLoaded ? model.id : `${model.id} is loaded when it is first used.`;
}

async function loadModels() {
    try {
        models = await fetchModels();
    } catch (error) {
        models = [];
        $("notice").textContent = error.message;
        $("model").replaceChildren(h("option", { value: "" }, "No model"));
        if (error.status === 401) askKey(error.message);
        return;
    }
    $("notice").textContent = models.length ? "" : "The server has no model.";
    $("model").replaceChildren(...models.map((m) => h("option", { value: m.id }, m.isLoaded ? m.id : m.id + " (not loaded)")));
    if (models.some((m) => m.id === settings.model)) $("model").value = settings.model;
    $("model").disabled = models.length < 2;
    $("facts").textContent = describeModel();
    showContext();
    panel.showDefaults(await fetchDefaults());
}

/* ---- composer and keys ---- */

function growField() {
    const field = $("message");
    field.style.height = "auto";
    field.style.height = field.scrollHeight + "px";
    $("send").disabled = !field.value.trim();
}

function submit(event) {
    event.preventDefault();
    const field = $("message");
    if (isBusy() || !field.value.trim()) return;
    const text = field.value;
    field.value = "";
    growField();
    send(text);
    field.focus();
}

function stepChat(step) {
    const list = sidebar.shown(), at = list.findIndex((c) => c.id === chat.id), next = list[at < 0 ? 0 : at + step];
    if (next) openChat(next.id);
}

function editLast() {
    const last = [...views].reverse().find((view) => view.message.role === "user");
    if (last && !isBusy() && !last.editor) last.edit();
}

function handleKey(event) {
    const key = event.key, command = (event.ctrlKey || event.metaKey) && !event.altKey, hasDialog = document.querySelector("dialog[open]");
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.isComposing || hasDialog) return;
    if (command && !event.shiftKey && key.toLowerCase() === "k") startChat();
    else if (command && !event.shiftKey && key.toLowerCase() === "b") sidebar.toggle();
    else if (command && key === ",") panel.open();
    else if (event.altKey && !command && (key === "ArrowUp" || key === "ArrowDown")) stepChat(key === "ArrowUp" ? -1 : 1);
    else if (key === "Escape" && isBusy()) stop();
    else if (key === "Escape" && document.body.classList.contains("no-sidebar") === false && $("scrim").offsetWidth) sidebar.toggle();
    else if (key === "/" && !isTyping && !command && !event.altKey) $("message").focus();
    else if (key === "ArrowUp" && event.target === $("message") && !event.target.value && !command && !event.shiftKey) editLast();
    else return;
    event.preventDefault();
}

function wire() {
    const field = $("message"), scroll = $("scroll");
    $("composer").addEventListener("submit", submit);
    field.addEventListener("input", growField);
    field.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) submit(event);
    });
    $("stop").addEventListener("click", stop);
    for (const id of ["new-chat", "header-new"]) $(id).addEventListener("click", startChat);
    $("model").addEventListener("change", () => {
        settings.model = modelId();
        saveSettings(settings);
        $("facts").textContent = describeModel();
        showContext();
    });
    scroll.addEventListener("scroll", () => {
        isPinned = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END;
        $("to-end").hidden = isPinned || !chat.messages.length;
    }, { passive: true });
    $("to-end").addEventListener("click", () => {
        isPinned = true;
        draw();
        field.focus();
    });
    $("ask-key-no").addEventListener("click", () => $("ask-key").close());
    document.addEventListener("keydown", handleKey);
    window.addEventListener("hashchange", () => location.hash.slice(1) !== chat.id && openChat(location.hash.slice(1)));
    window.addEventListener("pagehide", () => runs.forEach((run) => keep(run.which)));
    $("starters").append(...STARTERS.map((text) => h("button", { type: "button", class: "starter", onclick: () => send(text) }, text)));
}

function begin() {
    openStore(() => {
        if (!wasToldOfFull) toast("The browser's storage is full or closed: new conversations are not kept. Export and delete some.");
        wasToldOfFull = true;
    }, (id) => {
        if (id === chat.id && !isBusy()) showChat(getChat(id) || newChat(settings.system));
        else sidebar.update();
    });
    sidebar = new Sidebar({
        current: () => chat && chat.id,
        isRunning: (id) => runs.has(id),
        open: openChat,
        renamed: showState,
        removed(id) {
            if (runs.has(id)) runs.get(id).controller.abort();
            if (chat.id === id) startChat();
        },
        setHidden(isHidden) {
            settings.sidebarIsHidden = isHidden;
            saveSettings(settings);
        },
    }, settings.sidebarIsHidden);
    panel = new Settings(settings, {
        chat: () => chat,
        saveChat: () => chat.messages.length && saveChat(chat),
        changed: () => sidebar.update(),
        keyChanged: loadModels,
        allRemoved() {
            runs.forEach((run) => run.controller.abort());
            startChat();
        },
    });
    wire();
    showChat(getChat(location.hash.slice(1)) || newChat(settings.system));
    if (!window.matchMedia("(pointer: coarse)").matches) $("message").focus();
    loadModels();
}

begin();
