// SPDX-License-Identifier: Apache-2.0
// One message on the page: what it says, what can be done with it, and its editor. Views only show; what a button does is
// the caller's: actions = {edit(message, text), chooseAnswer(message, n), again(message), goOn(message)}.

import { $, copyButton, h, icon, iconButton } from "./dom.js";
import { renderMarkdown } from "./markdown.js";

export const answerOf = (message) => message.answers[message.chosen];

export function grouped(n) {
    return Math.round(n).toLocaleString("en-US");
}

/** "41.3 tokens/s · 128 tokens · prompt 56 (32 cached)" */
function describeStats(answer) {
    const s = answer.stats, parts = [];
    if (!s || !s.generated) return "";
    if (s.rate) parts.push((s.isMeasuredHere ? "≈ " : "") + (s.rate < 100 ? s.rate.toFixed(1) : grouped(s.rate)) + " tokens/s");
    parts.push(grouped(s.generated) + (s.generated === 1 ? " token" : " tokens"));
    if (s.prompt) parts.push(`prompt ${grouped(s.prompt)}` + (s.cached ? ` (${grouped(s.cached)} cached)` : ""));
    return parts.join(" · ");
}

const NOTES = { length: "Cut at the token limit", stopped: "Stopped" };

function grow(area) {
    area.style.height = "auto";
    area.style.height = area.scrollHeight + 2 + "px";
}

export class MessageView {
    constructor(message, actions) {
        this.message = message;
        this.actions = actions;
        this.root = h("article", { class: "message " + message.role, "aria-label": message.role === "user" ? "You" : "Answer" });
        if (message.role === "user") {
            this.bubble = h("div", { class: "bubble" });
        } else {
            this.name = h("div", { class: "name" });
            this.thought = h("div", { class: "markdown" });
            this.summary = h("span");
            this.reasoning = h("details", { class: "reasoning", hidden: true }, h("summary", null, icon("right"), this.summary), this.thought);
            this.bubble = h("div", { class: "markdown" });
            this.error = h("div", { class: "error", role: "alert", hidden: true });
        }
        this.foot = h("div", { class: "foot" });
        this.root.append(...[this.name, this.reasoning, this.bubble, this.error, this.foot].filter(Boolean));
    }

    /** Shows the message as it is now. isLast: it is the last one; isBusy: an answer is being written in its conversation. */
    update(isLast, isBusy) {
        if (this.editor) return;
        if (this.message.role === "user") this.updateUser(isLast, isBusy);
        else this.updateAnswer(isLast, isBusy);
    }

    updateUser(isLast, isBusy) {
        if (this.bubble.textContent !== this.message.content) this.bubble.textContent = this.message.content;
        this.setFoot(`${isLast} ${isBusy}`, () => [
            copyButton("Copy message", () => this.message.content),
            !isBusy && iconButton("edit", "Edit message", () => this.edit()),
            !isBusy && isLast && iconButton("again", "Answer this", () => this.actions.again(this.message)),
        ]);
    }

    updateAnswer(isLast, isBusy) {
        const answer = answerOf(this.message), isRunning = answer.finish === "running";
        this.root.setAttribute("aria-busy", String(isRunning));
        this.root.classList.toggle("running", isRunning);
        this.name.textContent = answer.model;
        this.reasoning.hidden = !answer.reasoning;
        if (answer.reasoning) {
            const seconds = answer.thoughtMs / 1000, isThinking = isRunning && !answer.content;
            this.summary.textContent = isThinking ? `Thinking for ${Math.floor(seconds)} s …`
                : seconds ? `Thought for ${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s` : "Thoughts";
            this.reasoning.classList.toggle("thinking", isThinking);
            renderMarkdown(this.thought, answer.reasoning);
        }
        renderMarkdown(this.bubble, answer.content);
        this.bubble.classList.toggle("waiting", isRunning && !answer.content && !answer.reasoning);
        this.error.hidden = !answer.error;
        if (answer.error && this.error.textContent !== answer.error) this.error.replaceChildren(icon("alert"), h("span", null, answer.error));
        const stats = describeStats(answer);
        this.setFoot(`${isLast} ${isBusy} ${answer.finish} ${this.message.chosen} ${this.message.answers.length}`, () => this.answerFoot(answer, isLast, isBusy));
        this.stats.textContent = [NOTES[answer.finish], stats].filter(Boolean).join(" · ");
    }

    answerFoot(answer, isLast, isBusy) {
        const n = this.message.answers.length, chosen = this.message.chosen, isRunning = answer.finish === "running";
        this.stats = h("span", { class: "stats" });
        if (isRunning) return [this.stats];
        const other = (step, name, label) => iconButton(name, label, () => this.actions.chooseAnswer(this.message, chosen + step),
            { disabled: chosen + step < 0 || chosen + step >= n || isBusy });
        return [
            isLast && n > 1 && h("span", { class: "variants" }, other(-1, "left", "Earlier answer"),
                h("span", { "aria-label": `Answer ${chosen + 1} of ${n}` }, `${chosen + 1}/${n}`), other(1, "right", "Later answer")),
            answer.content && copyButton("Copy answer", () => answer.content),
            !isBusy && answer.content && iconButton("edit", "Edit answer", () => this.edit()),
            !isBusy && isLast && iconButton("again", "Answer again", () => this.actions.again(this.message)),
            !isBusy && isLast && answer.content && (answer.finish !== "stop") &&
                iconButton("go-on", "Go on from here", () => this.actions.goOn(this.message)),
            this.stats,
        ];
    }

    setFoot(state, make) {
        if (this.footState === state) return;
        this.footState = state;
        const had = this.foot.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
        this.foot.replaceChildren(...make().filter(Boolean));
        const same = had && [...this.foot.querySelectorAll("button:enabled")].find((b) => b.getAttribute("aria-label") === had);
        if (same) same.focus();
        else if (had) $("message").focus();
    }

    edit() {
        const isUser = this.message.role === "user", area = h("textarea", { "aria-label": isUser ? "Edit message" : "Edit answer" });
        const save = () => {
            const text = area.value;
            if (isUser && !text.trim()) return;
            this.closeEditor();
            this.actions.edit(this.message, text);
        };
        area.value = isUser ? this.message.content : answerOf(this.message).content;
        area.addEventListener("input", () => grow(area));
        area.addEventListener("keydown", (event) => {
            if (event.isComposing) return;
            if (event.key === "Escape") {
                event.stopPropagation();
                this.closeEditor();
                $("message").focus();
            } else if (event.key === "Enter" && !event.shiftKey && (isUser || event.ctrlKey || event.metaKey)) {
                event.preventDefault();
                save();
            }
        });
        const hasMore = isUser && this.root.nextElementSibling && this.root.nextElementSibling.nextElementSibling;
        this.editor = h("div", { class: "editor" }, area, h("div", { class: "buttons end" },
            hasMore && h("span", { class: "small" }, "What follows this message will be removed."),
            h("button", { type: "button", class: "text-button", onclick: () => this.closeEditor() }, "Cancel"),
            h("button", { type: "button", class: "main-button", onclick: save }, isUser ? "Send" : "Save")));
        this.bubble.hidden = this.foot.hidden = true;
        this.bubble.after(this.editor);
        grow(area);
        area.focus();
        area.setSelectionRange(area.value.length, area.value.length);
    }

    closeEditor() {
        this.editor.remove();
        this.editor = null;
        this.bubble.hidden = this.foot.hidden = false;
    }
}
