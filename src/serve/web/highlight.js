// SPDX-License-Identifier: Apache-2.0
// Light colouring of code: comments, strings, numbers, keywords and names that are called. One scanner with a row of
// rules for each language; what it does not know stays as it is.

import { h } from "./dom.js";

const WORDS = {
    c: "auto break case char const continue default do double else enum extern float for goto if inline int long register " +
        "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false " +
        "NULL nullptr class namespace template typename public private protected virtual override new delete this try catch " +
        "throw using constexpr noexcept size_t include define ifdef ifndef endif pragma",
    java: "abstract boolean break byte case catch char class const continue default do double else enum extends final finally " +
        "float for if implements import instanceof int interface long new null package private protected public return short " +
        "static super switch this throw throws true false try var void while record sealed fun val when object override " +
        "namespace using string async await foreach in out is",
    js: "async await break case catch class const continue default delete do else export extends false finally for from " +
        "function if import in instanceof interface let new null of return static super switch this throw true try type " +
        "typeof undefined var void while yield enum implements readonly as",
    python: "and as assert async await break class continue def del elif else except False finally for from global if import " +
        "in is lambda match case None nonlocal not or pass raise return True try while with yield self",
    rust: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut " +
        "pub ref return self Self static struct super trait true type unsafe use where while bool i8 i16 i32 i64 u8 u16 u32 " +
        "u64 usize isize f32 f64 str String Some None Ok Err",
    go: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range " +
        "return select struct switch type var true false nil string int bool byte error float64 int64 uint64 make append len",
    sh: "if then else elif fi for while until do done case esac in function return local export set unset echo exit cd " +
        "source sudo",
    sql: "select from where insert into values update set delete create table drop alter add primary key foreign references " +
        "join left right inner outer full on group by order having limit offset as and or not null is in between like union " +
        "all distinct case when then else end index view with begin commit rollback default unique int integer text varchar",
    ruby: "def end if elsif else unless while until do return class module self nil true false and or not begin rescue ensure " +
        "yield require attr_accessor puts each then when case in",
    data: "true false null yes no on off",
};

const SLASHES = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y, HASH = /#[^\n]*/y, DASHES = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y;
const QUOTES = /"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?/y;
const WITH_TICKS = /"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?|`(?:[^`\\]|\\[\s\S])*`?/y;
const TRIPLES = /(?:"""[\s\S]*?(?:"""|$))|(?:'''[\s\S]*?(?:'''|$))|"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?/y;
const RUST_TEXT = /"(?:[^"\\]|\\[\s\S])*"?|'(?:[^'\\\n]|\\.)'/y;
const SQL_TEXT = /'(?:[^']|'')*'?|"[^"\n]*"?/y;

const language = (words, comment, string, more) => ({ words: new Set(WORDS[words].split(" ")), comment, string, ...more });
const LANGUAGES = {
    c: language("c", SLASHES, QUOTES), java: language("java", SLASHES, QUOTES), js: language("js", SLASHES, WITH_TICKS),
    python: language("python", HASH, TRIPLES), rust: language("rust", SLASHES, RUST_TEXT), go: language("go", SLASHES, WITH_TICKS),
    sh: language("sh", HASH, QUOTES), sql: language("sql", DASHES, SQL_TEXT, { ignoresCase: true }),
    ruby: language("ruby", HASH, QUOTES), data: language("data", HASH, QUOTES), json: language("data", SLASHES, QUOTES),
    css: language("data", SLASHES, QUOTES),
};
const ALIASES = {
    h: "c", cpp: "c", "c++": "c", cc: "c", cxx: "c", hpp: "c", cuda: "c", metal: "c", objc: "c", glsl: "c", kotlin: "java",
    kt: "java", cs: "java", csharp: "java", "c#": "java", scala: "java", swift: "java", dart: "java", php: "js", javascript: "js",
    jsx: "js", ts: "js", tsx: "js", typescript: "js", mjs: "js", node: "js", py: "python", python3: "python", rs: "rust",
    golang: "go", bash: "sh", shell: "sh", zsh: "sh", console: "sh", fish: "sh", dockerfile: "sh", makefile: "sh", cmake: "sh",
    rb: "ruby", yaml: "data", yml: "data", toml: "data", ini: "data", jsonc: "json", json5: "json", scss: "css", less: "css",
    postgresql: "sql", sqlite: "sql", mysql: "sql",
};

const NUMBER = /(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)[a-zA-Z\d]*/y;
const NAME = /[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*/y;
const SPACE = /\s+/y;
const MAX_COLOURED = 60000;

function take(pattern, text, at) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    return match && match[0].length ? match[0] : null;
}

function colourTokens(code, rules, out) {
    let plain = "";
    const add = (kind, piece) => {
        if (!kind) {
            plain += piece;
            return;
        }
        if (plain) out.append(plain);
        plain = "";
        out.append(h("span", { class: "t-" + kind }, piece));
    };
    for (let at = 0; at < code.length;) {
        let kind = null, piece = take(SPACE, code, at);
        // A '#' in the middle of a word is no comment.
        if (!piece && (rules.comment !== HASH || at === 0 || /[\s;(\[{,]/.test(code[at - 1])) && (piece = take(rules.comment, code, at)))
            kind = "comment";
        if (!piece && (piece = take(rules.string, code, at))) kind = "string";
        if (!piece && (piece = take(NUMBER, code, at))) kind = "number";
        if (!piece && (piece = take(NAME, code, at))) {
            if (rules.words.has(rules.ignoresCase ? piece.toLowerCase() : piece)) kind = "word";
            else if (code[at + piece.length] === "(") kind = "call";
        }
        add(kind, piece || code[at]);
        at += piece ? piece.length : 1;
    }
    if (plain) out.append(plain);
}

const TAGS = /<!--[\s\S]*?(?:-->|$)|<\/?[A-Za-z][^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>?|&[#\w]+;|[^<&]+|[\s\S]/y;

function colourMarkup(code, out) {
    for (let at = 0; at < code.length;) {
        const piece = take(TAGS, code, at);
        const kind = piece.startsWith("<!--") ? "comment" : /^<\/?[A-Za-z]/.test(piece) ? "word" : /^&.+;$/.test(piece) ? "number" : null;
        out.append(kind ? h("span", { class: "t-" + kind }, piece) : piece);
        at += piece.length;
    }
}

function colourChanges(code, out) {
    for (const line of code.split(/(?<=\n)/)) {
        const kind = /^@@/.test(line) ? "call" : /^\+/.test(line) ? "added" : /^-/.test(line) ? "removed" : null;
        out.append(kind ? h("span", { class: "t-" + kind }, line) : line);
    }
}

/** The code as a fragment of text and coloured spans. */
export function highlight(code, name) {
    const out = document.createDocumentFragment(), key = name.toLowerCase();
    const rules = Object.hasOwn(LANGUAGES, key) ? LANGUAGES[key] : Object.hasOwn(ALIASES, key) ? LANGUAGES[ALIASES[key]] : null;
    if (code.length > MAX_COLOURED) out.append(code);
    else if (rules) colourTokens(code, rules, out);
    else if (["html", "xml", "svg", "vue", "svelte"].includes(key)) colourMarkup(code, out);
    else if (["diff", "patch"].includes(key)) colourChanges(code, out);
    else out.append(code);
    return out;
}
