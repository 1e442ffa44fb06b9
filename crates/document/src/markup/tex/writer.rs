//! Blocks of a body of LaTeX.

use std::collections::HashMap;

use super::{
    MAX_EXPANDED, MAX_MACROS, accents, formula,
    tokens::{command_length, group, option, without_arguments},
};
use crate::blocks::Block;

mod environment;

/// Maximum number of groups and environments in each other that are read.
const MAX_DEPTH: usize = 12;

/// Commands whose arguments are no text.
const SILENT: &[&str] = &[
    "label",
    "ref",
    "eqref",
    "pageref",
    "autoref",
    "cref",
    "Cref",
    "nameref",
    "vspace",
    "hspace",
    "setlength",
    "addtolength",
    "setcounter",
    "addtocounter",
    "usepackage",
    "documentclass",
    "bibliographystyle",
    "bibliography",
    "pagestyle",
    "thispagestyle",
    "newcommand",
    "renewcommand",
    "providecommand",
    "newenvironment",
    "renewenvironment",
    "newtheorem",
    "DeclareMathOperator",
    "hypersetup",
    "geometry",
    "definecolor",
    "color",
    "index",
    "glossary",
    "graphicspath",
    "addbibresource",
    "lstset",
    "includegraphics",
    "phantom",
    "vphantom",
    "hphantom",
    "rule",
    "cline",
    "cmidrule",
    "pagenumbering",
    "linespread",
    "selectlanguage",
    "fontsize",
    "hyphenation",
    "setmainfont",
    "theoremstyle",
    "numberwithin",
    "tableofcontents",
    "nocite",
    "enlargethispage",
    "arraystretch",
    "raisebox",
];

/// What has been read.
#[derive(Default)]
pub struct Done {
    pub blocks: Vec<Block>,
    pub title: Option<String>,
    pub author: Option<String>,
    /// The body shows the title.
    pub has_title: bool,
    pub included: usize,
    pub drawings: usize,
}

pub struct Writer<'a> {
    macros: &'a HashMap<String, String>,
    has_chapters: bool,
    done: Done,
    words: String,
    /// The open lists: true for numbers. The number of the last item.
    lists: Vec<(bool, usize)>,
    label: Option<String>,
    in_item: bool,
    notes: usize,
    below: Vec<Block>,
    expanded: usize,
    macros_open: usize,
}

impl<'a> Writer<'a> {
    pub fn new(macros: &'a HashMap<String, String>, has_chapters: bool) -> Self {
        Self {
            macros,
            has_chapters,
            done: Done::default(),
            words: String::new(),
            lists: vec![],
            label: None,
            in_item: false,
            notes: 0,
            below: vec![],
            expanded: 0,
            macros_open: 0,
        }
    }

    /// Reads what is declared above the text.
    pub fn read_declarations(&mut self, before: &str) {
        for command in ["\\title", "\\author"] {
            let found = before.find(command).map(|at| &before[at + command.len()..]);
            let argument = found.and_then(|rest| {
                let rest = option(rest).map_or(rest, |(_, rest)| rest);
                Some(group(rest)?.0)
            });
            if let Some(argument) = argument {
                self.declare(&command[1..], argument, 0);
            }
        }
    }

    fn declare(&mut self, command: &str, argument: &str, depth: usize) {
        let text = self.inner(&argument.replace("\\and", ", "), depth);
        let text = Some(text.split_whitespace().collect::<Vec<_>>().join(" "));
        match command {
            "title" => self.done.title = text,
            _ => self.done.author = text,
        }
    }

    pub fn finish(mut self) -> Done {
        self.end_paragraph();
        self.done
    }

    /// Returns the words of a part, apart from the text around it.
    fn inner(&mut self, tex: &str, depth: usize) -> String {
        let words = std::mem::take(&mut self.words);
        let blocks = std::mem::take(&mut self.done.blocks);
        let label = self.label.take();
        let in_item = std::mem::replace(&mut self.in_item, false);
        self.read(tex, depth + 1);
        let own = std::mem::replace(&mut self.words, words);
        let read = std::mem::replace(&mut self.done.blocks, blocks);
        (self.label, self.in_item) = (label, in_item);
        let before = crate::blocks::one_line(&read);
        match before.is_empty() {
            true => own,
            false => format!("{before} {own}"),
        }
    }

    fn push_block(&mut self, block: Block) {
        self.end_paragraph();
        if !block.is_blank() {
            self.done.blocks.push(block);
        }
    }

    fn end_paragraph(&mut self) {
        let lines = std::mem::take(&mut self.words);
        let lines = lines.split('\n').map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        });
        let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        let text = lines.join("\n");
        if !text.is_empty() {
            let block = match (self.in_item, self.label.take()) {
                (true, Some(label)) => Block::Item {
                    depth: self.lists.len().saturating_sub(1),
                    label,
                    text,
                },
                _ => Block::Text(text),
            };
            self.done.blocks.push(block);
        }
        if self.words.is_empty() {
            self.done.blocks.append(&mut self.below);
        }
    }

    pub fn read(&mut self, tex: &str, depth: usize) {
        if depth > MAX_DEPTH {
            self.words.push_str(tex);
            return;
        }
        let mut rest = tex;
        while let Some(c) = rest.chars().next() {
            rest = match c {
                '\\' => self.command(rest, depth),
                '$' => self.formula(rest),
                '{' => match group(rest) {
                    Some((inner, after)) => {
                        self.read(inner, depth + 1);
                        after
                    }
                    None => &rest[1..],
                },
                '}' => &rest[1..],
                '~' => {
                    self.words.push(' ');
                    &rest[1..]
                }
                '\n' => {
                    let after = rest[1..].trim_start_matches([' ', '\t']);
                    match after.strip_prefix('\n') {
                        Some(_) => self.end_paragraph(),
                        None => self.words.push(' '),
                    }
                    &rest[1..]
                }
                c => {
                    const SIGNS: [(&str, &str); 6] = [
                        ("---", "—"),
                        ("--", "–"),
                        ("``", "“"),
                        ("''", "”"),
                        ("!`", "¡"),
                        ("?`", "¿"),
                    ];
                    let sign = SIGNS.iter().find(|(written, _)| rest.starts_with(written));
                    let length = match sign {
                        Some((written, shown)) => {
                            self.words.push_str(shown);
                            written.len()
                        }
                        None => {
                            self.words.push(if c == '\t' { ' ' } else { c });
                            c.len_utf8()
                        }
                    };
                    &rest[length..]
                }
            };
        }
    }

    fn formula<'t>(&mut self, rest: &'t str) -> &'t str {
        let sign = if rest.starts_with("$$") { "$$" } else { "$" };
        let inner = &rest[sign.len()..];
        let mut from = 0;
        while let Some(at) = inner.get(from..).and_then(|part| part.find(sign)) {
            let at = from + at;
            if inner[..at].ends_with('\\') {
                from = at + 1;
                continue;
            }
            let line = formula(&inner[..at]);
            match sign {
                "$" => self.words.push_str(&line),
                _ => self.push_block(Block::Text(line)),
            }
            return &inner[at + sign.len()..];
        }
        self.words.push_str(sign);
        inner
    }

    /// Reads a command with its arguments. Returns what follows.
    fn command<'t>(&mut self, tex: &'t str, depth: usize) -> &'t str {
        let (command, after) = tex.split_at(command_length(tex).max(1));
        let name = &command[1..];
        let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
        // Spaces after a name end it.
        let rest = if is_word {
            after.strip_prefix('*').unwrap_or(after)
        } else {
            after
        };
        match name {
            "begin" => return self.environment(rest, depth),
            "end" => return group(rest).map_or(rest, |(_, rest)| rest),
            "\\" => {
                let rest = option(rest)
                    .filter(|_| rest.starts_with('['))
                    .map_or(rest, |(_, r)| r);
                self.words.push('\n');
                return rest;
            }
            "(" | "[" => {
                let close = if name == "(" { "\\)" } else { "\\]" };
                if let Some((inner, after)) = rest.split_once(close) {
                    let line = formula(inner);
                    match name {
                        "(" => self.words.push_str(&line),
                        _ => self.push_block(Block::Text(line)),
                    }
                    return after;
                }
            }
            "par" => self.end_paragraph(),
            "item" => return self.item(rest, depth),
            "maketitle" => self.done.has_title = true,
            "appendix" | "noindent" | "centering" => {}
            "verb" | "lstinline" => {
                let rest = option(rest)
                    .filter(|_| rest.starts_with('['))
                    .map_or(rest, |(_, r)| r);
                if let Some(sign) = rest.chars().next()
                    && let Some((code, after)) =
                        rest[sign.len_utf8()..].split_once(if sign == '{' { '}' } else { sign })
                {
                    self.words.push_str(code);
                    return after;
                }
            }
            "href" => {
                if let Some((_, rest)) = group(rest) {
                    return rest;
                }
            }
            "cite" | "citep" | "citet" | "textcite" | "parencite" | "autocite" => {
                let mut rest = rest;
                while let Some((note, after)) = option(rest).filter(|_| rest.starts_with('[')) {
                    if !note.is_empty() {
                        self.words.push_str(&format!("{note} "));
                    }
                    rest = after;
                }
                if let Some((keys, after)) = group(rest) {
                    self.words.push_str(&format!("[{keys}]"));
                    return after;
                }
            }
            "input" | "include" | "subfile" | "import" => {
                self.done.included += 1;
                return group(rest).map_or(rest, |(_, rest)| rest);
            }
            "title" | "author" => {
                let rest = option(rest).map_or(rest, |(_, rest)| rest);
                if let Some((argument, after)) = group(rest) {
                    self.declare(name, argument, depth);
                    return after;
                }
            }
            "footnote" | "thanks" | "footnotetext" => {
                let rest = option(rest).map_or(rest, |(_, rest)| rest);
                if let Some((note, after)) = group(rest) {
                    self.notes += 1;
                    let mark = format!("[^{}]", self.notes);
                    let words = self.inner(note, depth);
                    let words: Vec<&str> = words.split_whitespace().collect();
                    let text = format!("{mark}: {}", words.join(" "));
                    self.below.push(Block::Text(text));
                    self.words.push_str(&mark);
                    return after;
                }
            }
            "texorpdfstring" => {
                // The second one is for lists of contents.
                if let Some((shown, after)) = group(rest) {
                    self.read(shown, depth + 1);
                    return group(after).map_or(after, |(_, rest)| rest);
                }
            }
            "multicolumn" | "multirow" => {
                let rest = group(rest).map_or(rest, |(_, rest)| rest);
                return group(rest).map_or(rest, |(_, rest)| rest);
            }
            "textcolor" | "colorbox" | "parbox" | "resizebox" | "scalebox" => {
                let rest = option(rest).map_or(rest, |(_, rest)| rest);
                let rest = group(rest).map_or(rest, |(_, rest)| rest);
                return match name {
                    "resizebox" => group(rest).map_or(rest, |(_, rest)| rest),
                    _ => rest,
                };
            }
            "textsuperscript" | "textsubscript" => {
                if let Some((inner, after)) = group(rest) {
                    let words = self.inner(inner, depth);
                    let sign = if name == "textsubscript" { '_' } else { '^' };
                    let is_number = words.chars().all(|c| c.is_ascii_digit());
                    if sign == '_' || is_number {
                        self.words.push(sign);
                    }
                    self.words.push_str(&words);
                    return after;
                }
            }
            "caption" => {
                let rest = option(rest).map_or(rest, |(_, rest)| rest);
                if let Some((argument, after)) = group(rest) {
                    let text = self.inner(argument, depth);
                    self.push_block(Block::Text(text.trim().to_owned()));
                    return after;
                }
            }
            "def" | "let" => {
                let rest = rest.trim_start();
                let rest = &rest[command_length(rest)..];
                return match rest.find(['{', '\n']) {
                    Some(at) if rest[at..].starts_with('{') => {
                        group(&rest[at..]).map_or(rest, |(_, rest)| rest)
                    }
                    _ => rest,
                };
            }
            _ => {}
        }
        if let Some(level) = self.level(name) {
            let rest = option(rest).map_or(rest, |(_, rest)| rest);
            if let Some((argument, after)) = group(rest) {
                let text = self.inner(argument, depth);
                self.push_block(Block::Heading { level, text });
                return after;
            }
        }
        if SILENT.contains(&name) {
            return without_arguments(rest);
        }
        if let Some((accent, after)) = accents::accented(name, rest) {
            self.words.push_str(&accent);
            return after;
        }
        if let Some(sign) = accents::sign(name) {
            self.words.push_str(sign);
            let is_ended = is_word && rest.starts_with(' ') || rest.starts_with("{}");
            let after = rest.strip_prefix("{}").unwrap_or(rest);
            return if is_ended {
                after.trim_start_matches(' ')
            } else {
                after
            };
        }
        if let Some(body) = self.macros.get(name) {
            let is_free = self.macros_open < MAX_MACROS && self.expanded < MAX_EXPANDED;
            if is_free {
                self.expanded += body.len() + 1;
                self.macros_open += 1;
                self.read(body, depth + 1);
                self.macros_open -= 1;
            }
            return rest.strip_prefix("{}").unwrap_or(rest);
        }
        // What others show is their arguments, which follow.
        option(rest)
            .filter(|_| rest.starts_with('['))
            .map_or(rest, |(_, rest)| rest)
    }

    fn level(&self, name: &str) -> Option<usize> {
        let level = match name {
            "part" | "chapter" => return Some(1),
            "section" => 1,
            "subsection" => 2,
            "subsubsection" => 3,
            "paragraph" => 4,
            "subparagraph" => 5,
            "frametitle" => return Some(2),
            _ => return None,
        };
        Some(level + usize::from(self.has_chapters))
    }

    fn item<'t>(&mut self, rest: &'t str, depth: usize) -> &'t str {
        self.end_paragraph();
        self.in_item = true;
        let label = match self.lists.last_mut() {
            Some((true, count)) => {
                *count += 1;
                format!("{count}.")
            }
            _ => String::new(),
        };
        self.label = Some(label);
        let trimmed = rest.trim_start();
        if let Some((term, after)) = option(trimmed).filter(|_| trimmed.starts_with('[')) {
            let term = self.inner(term, depth);
            self.words.push_str(&format!("{} ", term.trim()));
            return after;
        }
        rest
    }
}
