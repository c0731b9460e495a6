// SPDX-License-Identifier: Apache-2.0
// Markdown inside a line: code, emphasis, links, line breaks. After CommonMark 0.31 (https://spec.commonmark.org) with
// strike-through and bare addresses; without HTML, which stays visible text. Work is linear in the text: stacks are bounded.

import { h } from "./dom.js";

const MAX_OPEN = 60; // open emphasis and brackets; also bounds how deep elements nest
const MAX_ADDRESS = 2000;
const ESCAPABLE = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const SPECIAL = /[\\`*_~![\]<\n]|https?:\/\/|\$\$/g;
const BARE = /https?:\/\/[^\s<>"'`|]{1,2000}/y;
const ANGLE = /<(https?:\/\/[^\s<>]+|mailto:[^\s<>]+)>/y;
const BREAK = /<br\s*\/?>/iy;
const MATH = /\\\([^]{1,2000}?\\\)|\\\[[^]{1,2000}?\\\]|\$\$[^]{1,2000}?\$\$/y; // shown as it is written
const TARGET =
    /\([ \n]{0,8}(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))(?:[ \n]{1,8}(?:"[^"]*"|'[^']*'))?[ \n]{0,8}\)/y;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/** The address when it is one that may be followed from here, else null. */
export function safeAddress(text) {
    if (text.length > MAX_ADDRESS) return null;
    try {
        const url = new URL(text);
        return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch (error) {
        return null;
    }
}

function link(address) {
    return h("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" });
}

function matchAt(pattern, text, at) {
    pattern.lastIndex = at;
    return pattern.exec(text);
}

/** A run of * _ or ~: what it may do is decided by what stands beside it. */
function delimiter(text, at) {
    const char = text[at];
    let end = at;
    while (end < text.length && text[end] === char) end++;
    const before = at ? text[at - 1] : " ", after = end < text.length ? text[end] : " ";
    const spaceBefore = /\s/.test(before), spaceAfter = /\s/.test(after);
    const signBefore = PUNCTUATION.test(before), signAfter = PUNCTUATION.test(after);
    const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
    const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
    return {
        char, length: end - at, left: end - at,
        opens: char === "_" ? left && (!right || signBefore) : left,
        closes: char === "_" ? right && (!left || signAfter) : right,
        node: document.createTextNode(text.slice(at, end)),
    };
}

const TAGS = { "*1": "em", "*2": "strong", "_1": "em", "_2": "strong", "~2": "del" };

/** Wraps what stands between delimiters that belong together. */
function pair(stack, from) {
    for (let c = from; c < stack.length; c++) {
        const closer = stack[c];
        while (closer.closes && closer.left) {
            let o = c - 1;
            while (o >= from && !(stack[o].char === closer.char && stack[o].opens && stack[o].left &&
                !((stack[o].closes || closer.opens) && (stack[o].length + closer.length) % 3 === 0 &&
                    (stack[o].length % 3 || closer.length % 3)))) o--;
            if (o < from) break;
            const opener = stack[o], n = opener.left >= 2 && closer.left >= 2 ? 2 : 1;
            const element = h(TAGS[closer.char + n]);
            for (let node = opener.node.nextSibling; node && node !== closer.node;) {
                const next = node.nextSibling;
                element.append(node);
                node = next;
            }
            opener.node.after(element);
            for (const d of [opener, closer]) {
                d.left -= n;
                d.node.data = d.char.repeat(d.left);
            }
            for (let i = o + 1; i < c; i++) stack[i].left = 0; // what is inside can no longer reach outside
        }
    }
    stack.length = from;
}

/** Where each run of backticks of a given length begins, so that a search for its end is never repeated. */
function indexTicks(text) {
    const index = new Map();
    for (const match of text.matchAll(/`+/g)) {
        const list = index.get(match[0].length);
        if (list) list.push(match.index);
        else index.set(match[0].length, [match.index]);
    }
    for (const list of index.values()) list.reverse();
    return index;
}

function takeCode(text, at, ticks) {
    let n = 1;
    while (text[at + n] === "`") n++;
    const list = ticks.get(n) || [];
    while (list.length && list[list.length - 1] < at + n) list.pop();
    if (!list.length) return { node: "`".repeat(n), end: at + n };
    const end = list.pop();
    let code = text.slice(at + n, end).replace(/\n/g, " ");
    if (/^ .*[^ ].* $/.test(code) || /^ [^ ] $/.test(code)) code = code.slice(1, -1);
    return { node: h("code", null, code), end: end + n };
}

function takeBare(text, at) {
    const match = matchAt(BARE, text, at);
    if (!match) return null;
    let address = match[0].replace(/[.,:;!?*_~]+$/, "");
    if (address.endsWith(")") && !address.includes("(")) address = address.replace(/[).,]+$/, "");
    const safe = safeAddress(address);
    if (!safe) return null;
    const element = link(safe);
    element.append(address);
    return { node: element, end: at + address.length };
}

/** Closes a link or image at a ']': what stands since its bracket becomes the link's text. */
function closeBracket(text, at, brackets, stack, out) {
    const open = brackets.pop();
    const target = open ? matchAt(TARGET, text, at + 1) : null;
    if (!target || open.isInert) {
        out.append("]");
        return at + 1;
    }
    const address = (target[1] !== undefined ? target[1] : target[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1");
    const isPicture = open.isImage && /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/.test(address);
    const safe = safeAddress(address);
    if (!safe && !isPicture) { // shown as it was written
        out.append(text.slice(at, TARGET.lastIndex));
        return TARGET.lastIndex;
    }
    pair(stack, open.depth);
    let element = isPicture ? null : link(safe);
    const inside = document.createDocumentFragment();
    while (open.node.nextSibling) inside.append(open.node.nextSibling);
    if (isPicture) element = h("img", { src: address, alt: inside.textContent });
    else if (inside.textContent) element.append(inside);
    else element.append(address);
    open.node.replaceWith(element);
    if (!open.isImage) for (const b of brackets) b.isInert = true; // links hold no links
    return TARGET.lastIndex;
}

/** The text as a fragment. */
export function renderInline(text) {
    const out = document.createDocumentFragment(), stack = [], brackets = [], ticks = indexTicks(text);
    let at = 0;
    while (at < text.length) {
        SPECIAL.lastIndex = at;
        const match = SPECIAL.exec(text), stop = match ? match.index : text.length;
        if (stop > at) out.append(text.slice(at, stop));
        at = stop;
        if (at === text.length) break;
        const char = text[at];
        let taken = null;
        const math = char === "\\" || char === "$" ? matchAt(MATH, text, at) : null;
        if (math) {
            taken = { node: h("span", { class: "math" }, math[0]), end: at + math[0].length };
        } else if (char === "\\") {
            if (text[at + 1] === "\n") taken = { node: h("br"), end: at + 2 };
            else if (at + 1 < text.length && ESCAPABLE.includes(text[at + 1])) taken = { node: text[at + 1], end: at + 2 };
        } else if (char === "`") {
            taken = takeCode(text, at, ticks);
        } else if (char === "*" || char === "_" || char === "~") {
            const d = delimiter(text, at);
            if (stack.length < MAX_OPEN && (char !== "~" || d.length === 2)) stack.push(d);
            else if (stack.length >= MAX_OPEN) pair(stack, brackets.length ? brackets[brackets.length - 1].depth : 0);
            taken = { node: d.node, end: at + d.length };
        } else if (char === "[" || (char === "!" && text[at + 1] === "[")) {
            const isImage = char === "!", node = document.createTextNode(isImage ? "![" : "[");
            if (brackets.length < MAX_OPEN) brackets.push({ node, isImage, depth: stack.length, isInert: false });
            taken = { node, end: at + node.data.length };
        } else if (char === "]") {
            at = closeBracket(text, at, brackets, stack, out);
            continue;
        } else if (char === "<") {
            const angle = matchAt(ANGLE, text, at), safe = angle ? safeAddress(angle[1]) : null;
            if (safe) {
                taken = { node: link(safe), end: at + angle[0].length };
                taken.node.append(angle[1]);
            } else {
                const br = matchAt(BREAK, text, at);
                if (br) taken = { node: h("br"), end: at + br[0].length };
            }
        } else if (char === "\n") {
            taken = { node: h("br"), end: at + 1 }; // models mean their line breaks
        } else if (char === "h" && !brackets.some((b) => !b.isImage && !b.isInert)) {
            taken = takeBare(text, at);
        }
        if (!taken) taken = { node: char, end: at + 1 };
        out.append(taken.node);
        at = taken.end;
    }
    pair(stack, 0);
    return out;
}
