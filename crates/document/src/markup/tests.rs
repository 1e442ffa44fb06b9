use super::*;
use crate::DocumentError;

type Read = fn(&str, &str) -> Result<ExtractedDocument, DocumentError>;

const READERS: [(&str, Read); 4] = [
    ("rst", rst::extract),
    ("adoc", asciidoc::extract),
    ("org", org::extract),
    ("tex", tex::extract),
];

#[test]
fn hostile_files_are_read_in_time() {
    let pieces = [
        "* ",
        "*",
        "_",
        "`",
        "``",
        "- ",
        "  - ",
        "1. ",
        ".. ",
        "|",
        "| ",
        "+-",
        "::",
        ":a:",
        "[",
        "[[",
        "<<",
        "{",
        "}",
        "\\begin{itemize}\\item ",
        "\\frac{",
        "$",
        "$$",
        "\\",
        "\\item ",
        "^",
        "==",
        "=== ===\n",
        "|===\n",
        "----\n",
        "--\n",
        "+\n",
        "#+begin_src\n",
        "#+begin_quote\n",
        ":x:\n",
        ".. note::\n   ",
        " ",
        "\\[",
        "\\footnote{",
        "footnote:[",
        "\\def\\a{\\a\\a}\\a",
        "a::\n",
        ">>> ",
        "**** ",
        "....",
        "http://[",
        ":r:`",
        "|_",
        "\\'",
        "\\c",
        "\\verb",
        "*/_",
        "_*",
        "link:a[",
        "[[a][",
        "\\title{",
    ];
    for (name, read) in READERS {
        for piece in pieces {
            let begin = std::time::Instant::now();
            let _ = read(&piece.repeat(2_000), name);
            let deep: String = (0..300).map(|i| " ".repeat(i) + piece + "\n").collect();
            let _ = read(&deep, name);
            let seconds = begin.elapsed().as_secs();
            // a reader that is quadratic in its input takes minutes
            assert!(seconds < 60, "{name} {piece:?} took {seconds} s");
        }
    }
}

proptest::proptest! {
    #[test]
    fn words_come_back_in_order(
        blocks in proptest::collection::vec((0usize..4, "[a-z]{3,8}( [a-z]{3,8}){0,6}"), 1..12)
    ) {
        let expected: Vec<&str> = blocks.iter().flat_map(|(_, words)| words.split(' ')).collect();
        let written = |kinds: [fn(&str) -> String; 4]| {
            let blocks = blocks.iter().map(|(kind, words)| kinds[*kind](words));
            blocks.collect::<Vec<_>>().join("\n\n")
        };
        let files = [
            written([
                |w| w.to_owned(),
                |w| format!("{w}\n{}", "=".repeat(w.len())),
                |w| format!("* **{w}**"),
                |w| format!(".. code-block:: sh\n\n   {w}"),
            ]),
            written([
                |w| w.to_owned(),
                |w| format!("== {w}"),
                |w| format!("* *{w}*"),
                |w| format!("[source,sh]\n----\n{w}\n----"),
            ]),
            written([
                |w| w.to_owned(),
                |w| format!("* {w}"),
                |w| format!("- *{w}*"),
                |w| format!("#+BEGIN_SRC sh\n{w}\n#+END_SRC"),
            ]),
            written([
                |w| w.to_owned(),
                |w| format!("\\section{{{w}}}"),
                |w| format!("\\begin{{itemize}}\\item \\textbf{{{w}}}\\end{{itemize}}"),
                |w| format!("\\begin{{verbatim}}\n{w}\n\\end{{verbatim}}"),
            ]),
        ];
        for ((name, read), file) in READERS.into_iter().zip(&files) {
            let text = read(file, name).unwrap().text;
            let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 2);
            let words: Vec<&str> = words.collect();
            proptest::prop_assert_eq!(&words, &expected, "{} {:?} {:?}", name, file, text);
        }
    }
}
