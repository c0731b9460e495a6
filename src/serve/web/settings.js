// SPDX-License-Identifier: Apache-2.0
// The settings: system prompt, sampling, colours, conversations as files, the API key.

import { $, confirmed, h, toast } from "./dom.js";
import { saveFile } from "./sidebar.js";
import { NUMBERS, deleteChat, exportChats, importChats, listChats, loadKey, readNumber, saveKey, saveSettings } from "./store.js";

/* setting, label, what it does, the server's name of it */
const FIELDS = [
    ["temperature", "Temperature", "Higher is more varied; 0 always takes the likeliest.", "temperature"],
    ["top_p", "Top-p", "Only the likeliest tokens that together have this probability.", "top_p"],
    ["top_k", "Top-k", "Only this many of the likeliest tokens; 0 is no limit.", "top_k"],
    ["min_p", "Min-p", "Only tokens at least this likely, as a share of the likeliest.", "min_p"],
    ["repetition_penalty", "Repetition penalty", "Above 1 makes what was said less likely.", "repeat_penalty"],
    ["max_tokens", "Max tokens", "The longest answer.", "n_predict"],
    ["seed", "Seed", "The same seed gives the same answer.", "seed"],
];

export function applyTheme(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const isDark = theme === "dark" || (theme === "auto" && window.matchMedia("(prefers-color-scheme: dark)").matches);
    $("theme").setAttribute("aria-label", isDark ? "Light colours" : "Dark colours");
    return isDark;
}

function makeNumber(settings, [name, label, hint]) {
    const rule = NUMBERS[name], id = "set-" + name;
    const input = h("input", { id, type: "text", inputmode: rule.whole ? "numeric" : "decimal", autocomplete: "off", "aria-describedby": id + "-hint" });
    const note = h("p", { class: "small", id: id + "-hint" }, hint);
    input.addEventListener("input", () => {
        const value = readNumber(name, input.value.replace(",", ".")), isWrong = value === null && input.value.trim() !== "";
        settings[name] = value;
        saveSettings(settings);
        input.setAttribute("aria-invalid", String(isWrong));
        note.textContent = !isWrong ? hint
            : `A ${rule.whole ? "whole " : ""}number ${rule.max > 1e9 ? `from ${rule.min}` : `between ${rule.min} and ${rule.max}`}; not used as it is.`;
    });
    return h("div", { class: "number" }, h("label", { for: id }, label), input, note);
}

export class Settings {
    /** app: {chat(), saveChat(), changed(), keyChanged()} */
    constructor(settings, app) {
        this.settings = settings;
        this.app = app;
        $("numbers").append(...FIELDS.map((field) => makeNumber(settings, field)));
        $("open-settings").addEventListener("click", () => this.open());
        $("settings").addEventListener("click", (event) => {
            if (event.target === $("settings")) $("settings").close(); // beside it
        });
        $("system").addEventListener("input", () => {
            settings.system = app.chat().system = $("system").value;
            saveSettings(settings);
            app.saveChat();
        });
        $("reset").addEventListener("click", () => {
            for (const [name] of FIELDS) settings[name] = null;
            saveSettings(settings);
            this.fill();
        });
        for (const radio of document.getElementsByName("theme"))
            radio.addEventListener("change", () => this.setTheme(radio.value));
        $("theme").addEventListener("click", () => this.setTheme(applyTheme(settings.theme) ? "light" : "dark"));
        window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(settings.theme));
        $("key").addEventListener("change", () => {
            saveKey($("key").value.trim());
            app.keyChanged();
        });
        $("export").addEventListener("click", () => saveFile(`mlxcel-chats-${new Date().toISOString().slice(0, 10)}.json`, exportChats(listChats())));
        $("import").addEventListener("click", () => $("file").click());
        $("file").addEventListener("change", () => this.importFiles());
        $("delete-all").addEventListener("click", () => this.deleteAll());
        applyTheme(settings.theme);
    }

    setTheme(theme) {
        this.settings.theme = theme;
        saveSettings(this.settings);
        applyTheme(theme);
    }

    fill() {
        for (const [name] of FIELDS) {
            const input = $("set-" + name);
            input.value = this.settings[name] === null ? "" : String(this.settings[name]);
            input.dispatchEvent(new Event("input"));
        }
    }

    /** The server's values, shown in empty fields. */
    showDefaults(defaults) {
        for (const [name, , , key] of FIELDS) {
            const value = defaults[key];
            $("set-" + name).placeholder = name === "seed" && !(value >= 0) ? "random"
                : name === "max_tokens" && !(value > 0) ? "no limit"
                : Number.isFinite(value) ? String(+value.toPrecision(4)) : "default";
        }
    }

    open() {
        $("system").value = this.app.chat().system;
        $("key").value = loadKey();
        for (const radio of document.getElementsByName("theme")) radio.checked = radio.value === this.settings.theme;
        this.fill();
        if (!$("settings").open) $("settings").showModal();
    }

    async importFiles() {
        const input = $("file");
        try {
            let n = 0;
            for (const file of input.files) n += importChats(await file.text(), file.name.replace(/\.json$/i, ""));
            toast(n === 0 ? "Nothing new in this file." : n === 1 ? "One conversation was imported." : `${n} conversations were imported.`);
        } catch (error) {
            toast(error.message);
        }
        input.value = "";
        this.app.changed();
    }

    async deleteAll() {
        const list = listChats();
        if (!list.length || !(await confirmed("Delete all conversations?", `${list.length} in this browser. This cannot be undone.`, "Delete all"))) return;
        for (const chat of list) deleteChat(chat.id);
        $("settings").close();
        this.app.allRemoved();
    }
}
