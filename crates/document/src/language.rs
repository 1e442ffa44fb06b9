//! Programming languages: recognized by file name, and parsed with `tree-sitter` if there is a
//! grammar.

use tree_sitter::Language;

/// Languages and the extensions of their files. Files of languages that [`grammar`] does not know
/// are split at lines.
#[rustfmt::skip]
const EXTENSIONS: &[(&str, &[&str])] = &[
    ("ada", &["adb", "ads"]), ("asm", &["asm", "s"]), ("awk", &["awk"]),
    ("bash", &["sh", "bash", "zsh", "ksh", "bats"]), ("batch", &["bat", "cmd"]), ("c", &["c", "h"]),
    ("clojure", &["clj", "cljs", "cljc", "edn"]), ("cmake", &["cmake"]), ("cobol", &["cob", "cbl"]),
    ("cpp", &["cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "cu", "cuh", "ino"]),
    ("csharp", &["cs", "csx"]), ("css", &["css", "less", "sass", "scss"]), ("d", &["d"]),
    ("dart", &["dart"]), ("diff", &["diff", "patch"]), ("elixir", &["ex", "exs"]),
    ("elm", &["elm"]), ("erlang", &["erl", "hrl"]),
    ("fortran", &["f", "f77", "f90", "f95", "f03", "f08"]), ("fsharp", &["fs", "fsi", "fsx"]),
    ("go", &["go"]), ("gradle", &["gradle"]), ("graphql", &["graphql", "gql"]),
    ("groovy", &["groovy"]), ("haskell", &["hs", "lhs"]), ("hcl", &["hcl", "tf", "tfvars"]),
    ("ini", &["cfg", "conf", "ini", "properties"]), ("java", &["java"]),
    ("javascript", &["js", "cjs", "mjs", "jsx"]), ("jinja", &["j2", "jinja", "jinja2"]),
    ("jsonc", &["json5", "jsonc"]), ("julia", &["jl"]), ("kotlin", &["kt", "kts"]),
    ("lisp", &["el", "lisp", "lsp", "cl"]), ("lua", &["lua"]), ("make", &["mk", "mak"]),
    ("matlab", &["m"]), ("nim", &["nim"]), ("nix", &["nix"]), ("ocaml", &["ml", "mli"]),
    ("pascal", &["pas", "pp"]), ("perl", &["pl", "pm", "t"]), ("php", &["php", "phtml"]),
    ("powershell", &["ps1", "psm1", "psd1"]), ("protobuf", &["proto"]),
    ("python", &["py", "pyi", "pyw"]), ("r", &["r"]), ("racket", &["rkt"]),
    ("ruby", &["rb", "rake", "gemspec"]), ("rust", &["rs"]), ("scala", &["scala", "sbt", "sc"]),
    ("scheme", &["scm", "ss"]), ("solidity", &["sol"]), ("sql", &["sql", "ddl", "pgsql", "plsql"]),
    ("starlark", &["bzl"]), ("svelte", &["svelte"]), ("swift", &["swift"]), ("tcl", &["tcl"]),
    ("thrift", &["thrift"]), ("toml", &["toml"]), ("tsx", &["tsx"]),
    ("typescript", &["ts", "cts", "mts"]), ("vb", &["vb", "vbs"]), ("verilog", &["v", "sv", "svh"]),
    ("vhdl", &["vhd", "vhdl"]), ("vim", &["vim"]), ("vue", &["vue"]),
    ("xml", &["xsd", "xsl", "xslt", "wsdl", "plist"]), ("yaml", &["yaml", "yml"]),
    ("zig", &["zig"]),
];

/// Files that are recognized by their whole name.
const NAMES: &[(&str, &[&str])] = &[
    ("bash", &[".bashrc", ".bash_profile", ".profile", ".zshrc"]),
    ("cmake", &["cmakelists.txt"]),
    ("dockerfile", &["dockerfile", "containerfile"]),
    ("make", &["makefile", "gnumakefile"]),
    ("ruby", &["gemfile", "rakefile", "vagrantfile"]),
    ("starlark", &["build.bazel", "workspace.bazel"]),
];

/// Returns the language of a file by its name or path.
pub fn of(name: &str) -> Option<&'static str> {
    let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let extension = file.rsplit_once('.').map(|(_, extension)| extension);
    let named = |table: &[(&'static str, &[&str])], what: &str| {
        table
            .iter()
            .find(|(_, names)| names.contains(&what))
            .map(|(language, _)| *language)
    };
    named(NAMES, &file).or_else(|| named(EXTENSIONS, extension?))
}

/// Returns the grammar of a language that is split along its syntax.
pub fn grammar(language: &str) -> Option<Language> {
    let grammar = match language {
        "bash" => tree_sitter_bash::LANGUAGE,
        "c" => tree_sitter_c::LANGUAGE,
        "cpp" => tree_sitter_cpp::LANGUAGE,
        "csharp" => tree_sitter_c_sharp::LANGUAGE,
        "elixir" => tree_sitter_elixir::LANGUAGE,
        "go" => tree_sitter_go::LANGUAGE,
        "haskell" => tree_sitter_haskell::LANGUAGE,
        "hcl" => tree_sitter_hcl::LANGUAGE,
        "java" => tree_sitter_java::LANGUAGE,
        "javascript" => tree_sitter_javascript::LANGUAGE,
        "kotlin" => tree_sitter_kotlin_ng::LANGUAGE,
        "lua" => tree_sitter_lua::LANGUAGE,
        "php" => tree_sitter_php::LANGUAGE_PHP,
        "python" => tree_sitter_python::LANGUAGE,
        "ruby" => tree_sitter_ruby::LANGUAGE,
        "rust" => tree_sitter_rust::LANGUAGE,
        "scala" => tree_sitter_scala::LANGUAGE,
        "sql" => tree_sitter_sequel::LANGUAGE,
        "swift" => tree_sitter_swift::LANGUAGE,
        "tsx" => tree_sitter_typescript::LANGUAGE_TSX,
        "typescript" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        "yaml" => tree_sitter_yaml::LANGUAGE,
        _ => return None,
    };
    Some(grammar.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognized_by_extension_or_name() {
        for (name, expected) in [
            ("src/main.rs", Some("rust")),
            ("App.TSX", Some("tsx")),
            ("Makefile", Some("make")),
            ("a/CMakeLists.txt", Some("cmake")),
            ("notes.txt", None),
            ("README", None),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
    }

    #[test]
    fn no_extension_has_two_languages() {
        let mut all: Vec<&str> = EXTENSIONS
            .iter()
            .flat_map(|(_, extensions)| *extensions)
            .copied()
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
