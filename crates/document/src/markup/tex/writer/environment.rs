//! Environments: lists, tables, formulas and code.

use super::{
    super::{
        formula,
        tokens::{group, option},
    },
    Writer,
};
use crate::blocks::Block;

/// Environments whose content is a formula.
const FORMULAS: [&str; 8] = [
    "equation",
    "align",
    "gather",
    "multline",
    "displaymath",
    "math",
    "eqnarray",
    "flalign",
];
const TABLES: [&str; 6] = [
    "tabular",
    "tabularx",
    "tabulary",
    "longtable",
    "array",
    "tabu",
];
const CODE: [&str; 5] = ["verbatim", "lstlisting", "minted", "Verbatim", "alltt"];
/// Environments that draw something, or are not shown.
const DRAWINGS: [&str; 4] = ["tikzpicture", "picture", "pspicture", "pgfpicture"];
impl Writer<'_> {
    pub fn environment<'t>(&mut self, rest: &'t str, depth: usize) -> &'t str {
        let Some((name, inner)) = group(rest) else {
            return rest;
        };
        let close = format!("\\end{{{name}}}");
        let plain = name.trim_end_matches('*');
        // One that is not closed ends with the text.
        let whole = || inner.split_once(&close).unwrap_or((inner, ""));
        if CODE.contains(&plain) {
            let (code, after) = whole();
            let (options, code) = option(code)
                .filter(|_| code.starts_with('['))
                .unwrap_or(("", code));
            let (language, code) = match plain {
                "minted" => group(code).unwrap_or(("", code)),
                _ => (language(options), code),
            };
            self.push_block(Block::Code {
                language: language.trim().to_lowercase(),
                text: code.to_owned(),
            });
            return after;
        }
        if FORMULAS.contains(&plain) {
            let (tex, after) = whole();
            self.push_block(Block::Text(formula(tex)));
            return after;
        }
        if DRAWINGS.contains(&plain) || plain == "comment" {
            self.done.drawings += usize::from(plain != "comment");
            return whole().1;
        }
        if TABLES.contains(&plain) {
            let (table, after) = whole();
            let table = match plain {
                "tabularx" | "tabulary" => group(table).map_or(table, |(_, table)| table),
                _ => table,
            };
            let table = option(table).map_or(table, |(_, table)| table);
            let table = group(table).map_or(table, |(_, table)| table);
            self.table(table, depth);
            return after;
        }
        let is_list = matches!(
            plain,
            "itemize"
                | "enumerate"
                | "description"
                | "thebibliography"
                | "compactitem"
                | "compactenum"
        );
        if is_list {
            // The place of the end that belongs to this beginning.
            let (body, after) = closed(inner, name);
            self.end_paragraph();
            let (label, in_item) = (self.label.take(), self.in_item);
            self.lists.push((plain.contains("enum"), 0));
            let body = option(body)
                .filter(|_| body.starts_with('['))
                .map_or(body, |(_, body)| body);
            let body = body.strip_prefix("{99}").unwrap_or(body);
            self.read(&body.replace("\\bibitem", "\\item\\bibkey"), depth + 1);
            self.end_paragraph();
            self.lists.pop();
            (self.label, self.in_item) = (label, in_item && !self.lists.is_empty());
            return after;
        }
        if plain == "frame" || plain == "figure" || plain == "table" || plain == "abstract" {
            self.end_paragraph();
        }
        let inner = option(inner)
            .filter(|_| inner.starts_with('['))
            .map_or(inner, |(_, r)| r);
        match plain {
            "frame" => match group(inner).filter(|_| inner.starts_with('{')) {
                Some((title, inner)) => {
                    let text = self.inner(title, depth);
                    self.push_block(Block::Heading { level: 2, text });
                    inner
                }
                None => inner,
            },
            "minipage" | "multicols" | "wrapfigure" | "subfigure" | "adjustbox" | "column" => {
                group(inner).map_or(inner, |(_, inner)| inner)
            }
            _ => inner,
        }
    }

    fn table(&mut self, table: &str, depth: usize) {
        let mut rows = vec![];
        for line in table.split("\\\\") {
            let mut row = vec![];
            let mut cell = String::new();
            let mut is_escaped = false;
            for c in line.chars() {
                match c {
                    '&' if !is_escaped => row.push(std::mem::take(&mut cell)),
                    c => cell.push(c),
                }
                is_escaped = c == '\\';
            }
            row.push(cell);
            let cells = row.iter().map(|cell| {
                const RULES: [&str; 5] = [
                    "\\hline",
                    "\\toprule",
                    "\\midrule",
                    "\\bottomrule",
                    "\\endhead",
                ];
                let mut cell = cell.clone();
                RULES.iter().for_each(|rule| cell = cell.replace(rule, ""));
                self.inner(&cell, depth).trim().to_owned()
            });
            rows.push(cells.collect());
        }
        self.push_block(Block::Table(rows));
    }
}

/// Returns the content of an environment, which may be in another one of the same name.
fn closed<'t>(inner: &'t str, name: &str) -> (&'t str, &'t str) {
    let (begin, end) = (format!("\\begin{{{name}}}"), format!("\\end{{{name}}}"));
    let (mut depth, mut from) = (1usize, 0);
    while let Some(at) = inner[from..].find(&end) {
        depth += inner[from..from + at].matches(&begin).count();
        depth -= 1;
        let stop = from + at;
        from = stop + end.len();
        if depth == 0 {
            return (&inner[..stop], &inner[from..]);
        }
    }
    (inner, "")
}

fn language(options: &str) -> &str {
    let found = options
        .split(',')
        .find_map(|part| part.trim().strip_prefix("language="));
    found.unwrap_or_default().trim_matches(['{', '}'])
}
