// SPDX-License-Identifier: Apache-2.0
// Markdown of answers as elements: headings, lists (tasks too), tables, code blocks, quotes, rules, paragraphs; inline.js
// does what stands in a line. After CommonMark and GitHub's tables, without HTML and indented code.
//
// An answer grows while it is shown. So the text is cut into top-level blocks, and only blocks whose source changed are
// made anew: the last one, as a rule. Selections and scroll positions of the others stay.

import { copyButton, h } from "./dom.js";
import { highlight } from "./highlight.js";
import { renderInline } from "./inline.js";

const MAX_DEPTH = 12;
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)(.*)$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?=\S)|[ \t]*$|( ))/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const BLANK = /^[ \t]*$/;

const indentOf = (line) => line.length - line.trimStart().length;

/** Whether a line begins something that ends a paragraph. */
function interrupts(line) {
    const item = ITEM.exec(line);
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
        (item && (!/\d/.test(item[2]) || /^1[.)]$/.test(item[2])) && !BLANK.test(line.slice(item[0].length)));
}

/* Each of these looks at lines[at ..] and returns a block {kind, end, ...}, or null. */

function takeFence(lines, at) {
    const open = FENCE.exec(lines[at]);
    if (!open) return null;
    const close = new RegExp(`^ {0,3}${open[2][0]}{${open[2].length},}[ \\t]*$`), code = [];
    let end = at + 1;
    while (end < lines.length && !close.test(lines[end]))
        code.push(lines[end++].replace(new RegExp(`^ {0,${open[1].length}}`), ""));
    return { kind: "code", language: open[3].trim().split(/\s/)[0], code: code.join("\n"), end: Math.min(end + 1, lines.length) };
}

/** A heading's text without the hashes that may end it. */
function trimHashes(text) {
    let end = text.length;
    while (end && text[end - 1] === "#") end--;
    return end === text.length || (end && text[end - 1] !== " ") ? text : text.slice(0, end).trimEnd();
}

function takeHeading(lines, at) {
    const match = HEADING.exec(lines[at]);
    return match && { kind: "heading", level: match[1].length, text: trimHashes(match[2].trim()), end: at + 1 };
}

function takeQuote(lines, at) {
    if (!QUOTE.test(lines[at])) return null;
    const inside = [];
    let end = at;
    for (; end < lines.length; end++) {
        if (QUOTE.test(lines[end])) inside.push(lines[end].replace(QUOTE, ""));
        else if (!BLANK.test(lines[end]) && !interrupts(lines[end]) && !BLANK.test(inside[inside.length - 1])) inside.push(lines[end]);
        else break;
    }
    return { kind: "quote", lines: inside, end };
}

function takeList(lines, at) {
    const first = ITEM.exec(lines[at]);
    if (!first || RULE.test(lines[at])) return null;
    const isOrdered = /\d/.test(first[2]), sign = first[2][first[2].length - 1], items = [];
    let end = at, item = null, width = 0, isLoose = false, wasBlank = false;
    for (; end < lines.length; end++) {
        const line = lines[end], match = ITEM.exec(line);
        if (BLANK.test(line)) {
            wasBlank = true;
            item.push("");
        } else if (item && indentOf(line) >= width) {
            if (wasBlank && !ITEM.test(line.slice(width))) isLoose = true;
            item.push(line.slice(width));
            wasBlank = false;
        } else if (match && !RULE.test(line) && /\d/.test(match[2]) === isOrdered && match[2][match[2].length - 1] === sign) {
            if (wasBlank && item) isLoose = true;
            width = match[1].length + match[2].length + (match[3] || " ").length;
            item = [line.slice(match[0].length)];
            items.push(item);
            wasBlank = false;
        } else if (!wasBlank && !interrupts(line) && !item.some((l) => FENCE.test(l))) {
            item.push(line.trimStart());
        } else {
            break;
        }
    }
    for (const list of items) while (list.length > 1 && list[list.length - 1] === "") list.pop();
    return { kind: "list", isOrdered, start: isOrdered ? parseInt(first[2], 10) : 1, items, isLoose, end };
}

function cells(line) {
    const trimmed = line.trim().replace(/^\|/, "").replace(/\|$/, (end, index, all) => (all[index - 1] === "\\" ? end : ""));
    return trimmed.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function takeTable(lines, at) {
    if (at + 1 >= lines.length || !lines[at].includes("|") || lines[at + 1].length > 1000 || !DIVIDER.test(lines[at + 1])) return null;
    const head = cells(lines[at]), divider = cells(lines[at + 1]), rows = [];
    if (head.length !== divider.length) return null;
    const aligns = divider.map((d) => (/^:.*:$/.test(d) ? "center" : d.endsWith(":") ? "right" : "left"));
    let end = at + 2;
    for (; end < lines.length && !BLANK.test(lines[end]) && !interrupts(lines[end]); end++) rows.push(cells(lines[end]));
    return { kind: "table", head, aligns, rows, end };
}

function takeParagraph(lines, at) {
    let end = at + 1;
    for (; end < lines.length && !BLANK.test(lines[end]); end++) {
        const under = /^ {0,3}(=+|-+)[ \t]*$/.exec(lines[end]);
        if (under)
            return { kind: "heading", level: under[1][0] === "=" ? 1 : 2, text: lines.slice(at, end).join(" ").trim(), end: end + 1 };
        if (interrupts(lines[end]) || takeTable(lines, end)) break;
    }
    return { kind: "paragraph", text: lines.slice(at, end).map((line) => line.trim()).join("\n"), end };
}

function parse(lines) {
    const blocks = [];
    for (let at = 0; at < lines.length;) {
        if (BLANK.test(lines[at])) {
            at++;
            continue;
        }
        let block = takeFence(lines, at) || takeHeading(lines, at);
        if (!block && RULE.test(lines[at])) block = { kind: "rule", end: at + 1 };
        block = block || takeQuote(lines, at) || takeList(lines, at) || takeTable(lines, at) || takeParagraph(lines, at);
        block.source = lines.slice(at, block.end).join("\n");
        blocks.push(block);
        at = block.end;
    }
    return blocks;
}

/* ---- elements ---- */

function buildCode(block) {
    const name = block.language || "text";
    return h("figure", { class: "code" },
        h("figcaption", null, h("span", null, name), copyButton("Copy code", () => block.code)),
        h("pre", { tabindex: "0", "aria-label": "Code, " + name }, h("code", null, highlight(block.code, block.language))));
}

function buildItem(lines, isLoose, depth) {
    const item = h("li"), task = /^\[([ xX])\][ \t]+/.exec(lines[0]);
    if (task) {
        lines = [lines[0].slice(task[0].length), ...lines.slice(1)];
        item.classList.add("task");
        item.append(h("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": task[1] !== " " ? "done" : "open" }));
    }
    for (const block of parse(lines))
        item.append(!isLoose && block.kind === "paragraph" ? renderInline(block.text) : build(block, depth + 1));
    return item;
}

function buildTable(block) {
    const cell = (tag, text, i) => h(tag, { class: "align-" + (block.aligns[i] || "left"), scope: tag === "th" ? "col" : null },
        renderInline(text));
    const row = (list) => h("tr", null, block.head.map((_, i) => cell("td", list[i] || "", i)));
    return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", null,
        h("thead", null, h("tr", null, block.head.map((text, i) => cell("th", text, i)))), h("tbody", null, block.rows.map(row))));
}

function build(block, depth) {
    if (depth > MAX_DEPTH) return h("p", null, block.source);
    switch (block.kind) {
    case "code": return buildCode(block);
    case "heading": return h("h" + Math.min(block.level + 2, 6), { class: "level-" + block.level }, renderInline(block.text));
    case "rule": return h("hr");
    case "quote": return h("blockquote", null, parse(block.lines).map((b) => build(b, depth + 1)));
    case "list":
        return h(block.isOrdered ? "ol" : "ul", { start: block.isOrdered && block.start !== 1 ? block.start : null },
            block.items.map((lines) => buildItem(lines, block.isLoose, depth)));
    case "table": return buildTable(block);
    default: return h("p", null, renderInline(block.text));
    }
}

/** Lines whose indentation is blanks, except in code that stands at the margin. */
function splitLines(text) {
    let fence = null;
    return text.replace(/\r\n?/g, "\n").split("\n").map((line) => {
        const mark = /^(\s*)(`{3,}|~{3,})/.exec(line), keeps = fence && !fence[1];
        if (mark && !fence) fence = mark;
        else if (mark && fence && mark[2].startsWith(fence[2])) fence = null;
        return keeps ? line : line.replace(/^[ \t]+/, (blanks) => blanks.replace(/\t/g, "    "));
    });
}

/** Shows the text in an element, which holds nothing else; blocks whose source is the same as before are kept. */
export function renderMarkdown(element, text) {
    const blocks = parse(splitLines(text)), before = element.sources || [];
    let same = 0;
    while (same < blocks.length && same < before.length && blocks[same].source === before[same]) same++;
    while (element.childNodes.length > same) element.lastChild.remove();
    for (const block of blocks.slice(same)) element.append(build(block, 0));
    element.sources = blocks.map((block) => block.source);
}
