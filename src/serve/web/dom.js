// SPDX-License-Identifier: Apache-2.0
// Making elements. Text becomes text nodes and nothing else: the page has no other way to build HTML, and its
// content security policy (trusted types) keeps it so.

const SVG = "http://www.w3.org/2000/svg";

/** An element: attributes by name, `on...` functions as listeners, false and null left out; children are nodes or text. */
export function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) element.append(child);
    return element;
}

/** One of the drawings at the end of index.html. */
export function icon(name) {
    const svg = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    use.setAttribute("href", "#i-" + name);
    svg.append(use);
    return svg;
}

export function iconButton(name, label, onclick, attributes) {
    return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...attributes },
        icon(name));
}

export const $ = (id) => document.getElementById(id);

/** Copies text, also on pages that are neither https nor localhost, where there is no clipboard API. */
export async function copyText(text) {
    if (navigator.clipboard && window.isSecureContext) {
        try {
            await navigator.clipboard.writeText(text);
            return true;
        } catch (error) {
            // Not allowed: the old way.
        }
    }
    const area = h("textarea", { class: "offscreen", readonly: true, "aria-hidden": "true" });
    const focused = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused) focused.focus();
    return done;
}

/** A button that copies what text() gives and says so for a moment. */
export function copyButton(label, text, attributes) {
    const button = iconButton("copy", label, async () => {
        const done = await copyText(text());
        button.replaceChildren(icon(done ? "check" : "alert"));
        announce(done ? "Copied" : "Could not be copied");
        setTimeout(() => button.replaceChildren(icon("copy")), 1500);
    }, attributes);
    return button;
}

/** Says something to screen readers. */
export function announce(text) {
    $("status").textContent = text;
}

let toastTimer = 0;
/** Shows a line for some seconds. */
export function toast(text) {
    const element = $("toast");
    element.textContent = text;
    element.classList.add("shown");
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => element.classList.remove("shown"), 6000);
}

/** Asks; resolves to true or false. */
export function confirmed(question, detail, action) {
    const dialog = $("confirm");
    $("confirm-title").textContent = question;
    $("confirm-detail").textContent = detail;
    $("confirm-yes").textContent = action;
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    });
}
