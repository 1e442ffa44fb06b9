//! Formulas in a line: `(a + b)/2`, `√(2gh)`, `x_i^2`.

use super::tokens::{command_length, group, option};
use crate::formula::{base, fraction, root, with_scripts};

/// Maximum number of groups in each other that are read. Deeper ones are kept as written.
const MAX_DEPTH: usize = 12;

/// Signs by the names of their commands.
#[rustfmt::skip]
const SIGNS: &[(&str, &str)] = &[
    ("alpha", "α"), ("beta", "β"), ("gamma", "γ"), ("delta", "δ"), ("epsilon", "ε"),
    ("varepsilon", "ε"), ("zeta", "ζ"), ("eta", "η"), ("theta", "θ"), ("vartheta", "ϑ"),
    ("iota", "ι"), ("kappa", "κ"), ("lambda", "λ"), ("mu", "μ"), ("nu", "ν"), ("xi", "ξ"),
    ("pi", "π"), ("rho", "ρ"), ("sigma", "σ"), ("tau", "τ"), ("upsilon", "υ"), ("phi", "φ"),
    ("varphi", "φ"), ("chi", "χ"), ("psi", "ψ"), ("omega", "ω"), ("Gamma", "Γ"), ("Delta", "Δ"),
    ("Theta", "Θ"), ("Lambda", "Λ"), ("Xi", "Ξ"), ("Pi", "Π"), ("Sigma", "Σ"), ("Phi", "Φ"),
    ("Psi", "Ψ"), ("Omega", "Ω"), ("sum", "∑"), ("prod", "∏"), ("int", "∫"), ("oint", "∮"),
    ("infty", "∞"), ("partial", "∂"), ("nabla", "∇"), ("times", "×"), ("cdot", "·"), ("pm", "±"),
    ("mp", "∓"), ("div", "÷"), ("leq", "≤"), ("le", "≤"), ("geq", "≥"), ("ge", "≥"),
    ("neq", "≠"), ("ne", "≠"), ("approx", "≈"), ("equiv", "≡"), ("sim", "∼"), ("propto", "∝"),
    ("ll", "≪"), ("gg", "≫"), ("in", "∈"), ("notin", "∉"), ("subset", "⊂"), ("subseteq", "⊆"),
    ("supset", "⊃"), ("cup", "∪"), ("cap", "∩"), ("emptyset", "∅"), ("forall", "∀"),
    ("exists", "∃"), ("neg", "¬"), ("land", "∧"), ("wedge", "∧"), ("lor", "∨"), ("vee", "∨"),
    ("to", "→"), ("rightarrow", "→"), ("leftarrow", "←"), ("Rightarrow", "⇒"), ("Leftarrow", "⇐"),
    ("leftrightarrow", "↔"), ("Leftrightarrow", "⇔"), ("iff", "⇔"), ("implies", "⇒"),
    ("mapsto", "↦"), ("ldots", "…"), ("cdots", "⋯"), ("dots", "…"), ("vdots", "⋮"),
    ("circ", "∘"), ("bullet", "•"), ("star", "⋆"), ("ast", "∗"), ("otimes", "⊗"), ("oplus", "⊕"),
    ("perp", "⊥"), ("parallel", "∥"), ("angle", "∠"), ("ell", "ℓ"), ("hbar", "ħ"), ("Re", "Re"),
    ("Im", "Im"), ("langle", "⟨"), ("rangle", "⟩"), ("lfloor", "⌊"), ("rfloor", "⌋"),
    ("lceil", "⌈"), ("rceil", "⌉"), ("prime", "′"), ("mid", "|"), ("vert", "|"), ("Vert", "‖"),
    ("{", "{"), ("}", "}"), ("%", "%"), ("&", "&"), ("_", "_"), ("#", "#"), ("$", "$"),
    ("|", "‖"), ("quad", " "), ("qquad", " "), (",", " "), (";", " "), (":", " "), (" ", " "),
    ("!", ""), ("\\", "; "), ("left", ""), ("right", ""), ("big", ""), ("Big", ""), ("bigg", ""),
    ("Bigg", ""), ("bigl", ""), ("bigr", ""), ("Bigl", ""), ("Bigr", ""), ("displaystyle", ""),
    ("textstyle", ""), ("limits", ""), ("nolimits", ""), ("nonumber", ""), ("notag", ""),
    ("hline", ""), ("middle", ""), ("lim", "lim"), ("sin", "sin"), ("cos", "cos"), ("tan", "tan"),
    ("log", "log"), ("ln", "ln"), ("exp", "exp"), ("min", "min"), ("max", "max"), ("sup", "sup"),
    ("inf", "inf"), ("det", "det"), ("dim", "dim"), ("ker", "ker"), ("arg", "arg"), ("gcd", "gcd"),
    ("Pr", "Pr"), ("bmod", " mod "), ("mod", " mod "),
];

/// Returns a formula in a line. What is not known stays as written.
pub fn formula(tex: &str) -> String {
    let line = linear(tex, 0);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn linear(tex: &str, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return tex.to_owned();
    }
    let mut line = String::new();
    // Where what a script belongs to begins.
    let mut last = 0;
    let mut rest = tex;
    while let Some(c) = rest.chars().next() {
        if matches!(c, '^' | '_') {
            let (mut sub, mut sup) = (String::new(), String::new());
            while let Some(sign) = rest.chars().next().filter(|c| matches!(c, '^' | '_')) {
                let (script, after) = atom(rest[1..].trim_start(), depth + 1);
                match sign {
                    '^' => sup = script,
                    _ => sub = script,
                }
                rest = after;
            }
            let of = line.split_off(last);
            let trimmed = of.trim_end();
            line.push_str(&with_scripts(&base(trimmed), sub.trim(), sup.trim()));
            continue;
        }
        if c.is_whitespace() || c == '~' {
            line.push(' ');
            rest = &rest[c.len_utf8()..];
            continue;
        }
        if c == '&' {
            rest = &rest[1..];
            continue;
        }
        last = line.len();
        let (shown, after) = atom(rest, depth + 1);
        line.push_str(&shown);
        rest = after;
    }
    line
}

/// Reads a group, a command with its arguments, or one sign.
fn atom(tex: &str, depth: usize) -> (String, &str) {
    if let Some((inner, after)) = group(tex).filter(|_| tex.starts_with('{')) {
        return (linear(inner, depth), after);
    }
    let length = command_length(tex);
    if length == 0 {
        let end = tex.chars().next().map_or(0, char::len_utf8);
        return (tex[..end].to_owned(), &tex[end..]);
    }
    let (command, rest) = tex.split_at(length);
    let name = &command[1..];
    if depth > MAX_DEPTH {
        return (command.to_owned(), rest);
    }
    let argument = |rest: &'_ str| -> (String, usize) {
        let trimmed = rest.trim_start();
        let (shown, after) = atom(trimmed, depth + 1);
        (shown, rest.len() - after.len())
    };
    match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" | "binom" => {
            let (above, length) = argument(rest);
            let rest = &rest[length..];
            let (below, length) = argument(rest);
            let shown = match name {
                "binom" => format!("({above} choose {below})"),
                _ => fraction(&above, &below),
            };
            (shown, &rest[length..])
        }
        "sqrt" => {
            let (degree, rest) = option(rest).unwrap_or(("", rest));
            let (of, length) = argument(rest);
            (root(&of, degree), &rest[length..])
        }
        "text" | "mathrm" | "mathbf" | "mathit" | "mathsf" | "mathtt" | "mathcal" | "mathbb"
        | "mathfrak" | "boldsymbol" | "bm" | "operatorname" | "textbf" | "textit" | "textrm"
        | "mbox" | "hbox" | "mathop" | "mathscr" | "tag" => {
            let rest = rest.strip_prefix('*').unwrap_or(rest);
            match group(rest) {
                Some((inner, after)) if name.starts_with("text") || name.ends_with("box") => {
                    (inner.to_owned(), after)
                }
                _ => {
                    let (of, length) = argument(rest);
                    (of, &rest[length..])
                }
            }
        }
        "hat" | "widehat" | "bar" | "overline" | "vec" | "tilde" | "widetilde" | "dot" => {
            let (of, length) = argument(rest);
            let mark = match name {
                "bar" | "overline" => '\u{304}',
                "vec" => '\u{20D7}',
                "tilde" | "widetilde" => '\u{303}',
                "dot" => '\u{307}',
                _ => '\u{302}',
            };
            let one = of.trim().chars().count() == 1;
            let of = if one {
                of.trim().to_owned()
            } else {
                format!("({})", of.trim())
            };
            (format!("{of}{mark}"), &rest[length..])
        }
        "label" | "begin" | "end" | "hspace" | "vspace" => {
            let (_, after) = group(rest).unwrap_or(("", rest));
            // Columns of a matrix.
            let after = match name {
                "begin" => group(after).map_or(after, |(_, after)| after),
                _ => after,
            };
            (" ".into(), after)
        }
        name => match SIGNS.iter().find(|(of, _)| *of == name) {
            Some((_, sign)) => {
                // A point after it stands for no bracket.
                let rest = match name {
                    "left" | "right" => rest.trim_start().strip_prefix('.').unwrap_or(rest),
                    _ => rest,
                };
                let is_word = sign.len() > 1 && sign.chars().all(|c| c.is_ascii_alphabetic());
                let is_followed = rest.starts_with(|c: char| c.is_whitespace());
                let space = if is_word && is_followed { " " } else { "" };
                (format!("{sign}{space}"), rest)
            }
            None => (command.to_owned(), rest),
        },
    }
}
