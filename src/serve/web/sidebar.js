// SPDX-License-Identifier: Apache-2.0
// The list of conversations: open, rename, export, delete, search.

import { $, confirmed, h, iconButton } from "./dom.js";
import { deleteChat, exportChats, listChats, saveChat } from "./store.js";

const isNarrow = () => window.matchMedia("(max-width: 760px)").matches;

/** Hands a text to the browser as a file to keep. */
export function saveFile(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function groupOf(time) {
    const today = new Date().setHours(0, 0, 0, 0), day = 86400000;
    if (time >= today) return "Today";
    if (time >= today - day) return "Yesterday";
    if (time >= today - 7 * day) return "Last seven days";
    return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

function matches(chat, words) {
    if (!words.length) return true;
    const text = [chat.title, ...chat.messages.flatMap((m) => (m.role === "user" ? m.content : m.answers.map((a) => a.content)))]
        .join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
}

export class Sidebar {
    /** app: {current(), isRunning(id), open(id), removed(id), setHidden(isHidden)} */
    constructor(app, isHidden) {
        this.app = app;
        this.isHidden = isHidden || isNarrow();
        $("search").addEventListener("input", () => this.update());
        for (const id of ["sidebar-close", "sidebar-open", "scrim"]) $(id).addEventListener("click", () => this.toggle());
        window.matchMedia("(max-width: 760px)").addEventListener("change", (query) => this.show(query.matches));
        this.show(this.isHidden);
    }

    show(isHidden) {
        this.isHidden = isHidden;
        document.body.classList.toggle("no-sidebar", isHidden);
        $("sidebar").inert = isHidden;
        document.querySelector("main").inert = !isHidden && isNarrow(); // it lies over the page there
    }

    toggle() {
        this.show(!this.isHidden);
        if (!isNarrow()) this.app.setHidden(this.isHidden);
        $(this.isHidden ? "sidebar-open" : "sidebar-close").focus();
    }

    /** After a choice: on a phone the list makes room. */
    leave() {
        if (isNarrow()) this.show(true);
    }

    /** What the list shows, top to bottom. */
    shown() {
        const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
        return listChats().filter((chat) => matches(chat, words));
    }

    update() {
        const list = this.shown(), out = [], active = document.activeElement, focused = active && active.dataset ? active.dataset.chat : null;
        if (this.renaming) return;
        let group = null, items = null;
        for (const chat of list) {
            const name = groupOf(chat.updated);
            if (name !== group) {
                items = h("ul", null);
                out.push(h("h2", null, name), items);
                group = name;
            }
            items.append(this.item(chat));
        }
        if (!list.length) out.push(h("p", { class: "small none" }, $("search").value ? "Nothing found." : "Conversations will be listed here."));
        $("chats").replaceChildren(...out);
        const same = focused && [...$("chats").querySelectorAll("[data-chat]")].find((b) => b.dataset.chat === focused);
        if (same) same.focus();
    }

    item(chat) {
        const isCurrent = this.app.current() === chat.id;
        return h("li", { class: (isCurrent ? "current" : "") + (this.app.isRunning(chat.id) ? " busy" : "") },
            h("button", { type: "button", class: "chat", "data-chat": chat.id, "aria-current": isCurrent ? "page" : null, title: chat.title,
                onclick: () => this.app.open(chat.id), ondblclick: (event) => this.rename(chat, event.currentTarget.parentElement) }, chat.title),
            h("span", { class: "chat-actions" },
                iconButton("edit", `Rename “${chat.title}”`, (event) => this.rename(chat, event.currentTarget.closest("li"))),
                iconButton("export", `Export “${chat.title}”`, () => saveFile(`mlxcel-${chat.id}.json`, exportChats([chat]))),
                iconButton("delete", `Delete “${chat.title}”`, () => this.remove(chat))));
    }

    rename(chat, item) {
        const input = h("input", { type: "text", class: "rename", "aria-label": "Title", maxlength: 200 });
        let isDone = false;
        const finish = (keeps) => {
            if (isDone) return;
            isDone = true;
            this.renaming = false;
            if (keeps && input.value.trim()) {
                chat.title = input.value.trim();
                saveChat(chat);
            }
            this.app.renamed(chat);
            this.update();
            const same = [...$("chats").querySelectorAll("[data-chat]")].find((b) => b.dataset.chat === chat.id);
            if (same) same.focus();
        };
        input.value = chat.title;
        input.addEventListener("blur", () => finish(true));
        input.addEventListener("keydown", (event) => {
            if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
            event.preventDefault();
            event.stopPropagation();
            finish(event.key === "Enter");
        });
        this.renaming = true;
        item.replaceChildren(input);
        input.focus();
        input.select();
    }

    async remove(chat) {
        if (!(await confirmed("Delete this conversation?", chat.title, "Delete"))) return;
        deleteChat(chat.id);
        this.app.removed(chat.id);
        this.update();
        $("message").focus();
    }
}
