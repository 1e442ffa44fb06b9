//! The language of a text, and the text search configuration for it.
//!
//! [`detect`] looks at the [script](script) first, then at [frequent words](words), and last at
//! trigrams (crate `whatlang`). Its answer is stored with the document, so that a later version
//! does not change what an index has. [`config_name`] says which of PostgreSQL's configurations
//! makes words of a language: one with stems and stop words, or `simple`.

mod detect;
mod script;
mod words;

pub use detect::{detect, most_usual, of_document};

/// The language of a text that is too short, or of no language.
pub const UNDETERMINED: &str = "und";
/// The configuration, with its schema, of an index whose texts have configurations of their own.
pub const AUTO: &str = "rag.auto";
/// The key of a document's metadata that has its language.
pub const KEY: &str = "language";
/// The configuration of languages that have no other one.
pub const SIMPLE: &str = "simple";

/// A language with a configuration: its code of ISO 639-1, and the names that it also has.
struct Configured {
    code: &'static str,
    /// ISO 639-3, and variants that share the configuration.
    others: &'static [&'static str],
    config: &'static str,
}

const fn of(
    code: &'static str,
    others: &'static [&'static str],
    config: &'static str,
) -> Configured {
    Configured {
        code,
        others,
        config,
    }
}

/// The configurations that PostgreSQL has. Some versions lack a few.
const CONFIGURED: [Configured; 28] = [
    of("ar", &["ara"], "arabic"),
    of("hy", &["hye"], "armenian"),
    of("eu", &["eus"], "basque"),
    of("ca", &["cat"], "catalan"),
    of("da", &["dan"], "danish"),
    of("nl", &["nld"], "dutch"),
    of("en", &["eng"], "english"),
    of("fi", &["fin"], "finnish"),
    of("fr", &["fra"], "french"),
    of("de", &["deu"], "german"),
    of("el", &["ell"], "greek"),
    of("hi", &["hin"], "hindi"),
    of("hu", &["hun"], "hungarian"),
    of("id", &["ind"], "indonesian"),
    of("ga", &["gle"], "irish"),
    of("it", &["ita"], "italian"),
    of("lt", &["lit"], "lithuanian"),
    of("ne", &["nep"], "nepali"),
    of("no", &["nor", "nb", "nob", "nn", "nno"], "norwegian"),
    of("pt", &["por"], "portuguese"),
    of("ro", &["ron"], "romanian"),
    of("ru", &["rus"], "russian"),
    of("sr", &["srp"], "serbian"),
    of("es", &["spa"], "spanish"),
    of("sv", &["swe"], "swedish"),
    of("ta", &["tam"], "tamil"),
    of("tr", &["tur"], "turkish"),
    of("yi", &["yid"], "yiddish"),
];

/// Returns the text search configuration, in the schema `pg_catalog`, for a language: a code as
/// [`detect`] returns it, with a region or without (`de-CH`), or the name of the configuration.
pub fn config_name(language: &str) -> &'static str {
    let language = language.trim().to_lowercase();
    let code = language.split(['-', '_']).next().unwrap_or_default();
    let is_it = |configured: &&Configured| {
        configured.code == code || configured.others.contains(&code) || configured.config == code
    };
    let found = CONFIGURED.iter().find(is_it);
    found.map_or(SIMPLE, |configured| configured.config)
}

/// Returns the names of all configurations that [`config_name`] can return.
pub fn config_names() -> impl Iterator<Item = &'static str> {
    let names = CONFIGURED.iter().map(|configured| configured.config);
    names.chain([SIMPLE])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [(&str, &str, &str); 12] = [
        (
            "en",
            "english",
            "The houses at the river were sold last year, and the prices rose.",
        ),
        (
            "de",
            "german",
            "Die Häuser am Fluss wurden letztes Jahr verkauft, und die Preise stiegen.",
        ),
        (
            "fr",
            "french",
            "Les maisons au bord de la rivière ont été vendues l'année dernière.",
        ),
        (
            "es",
            "spanish",
            "Las casas junto al río se vendieron el año pasado y los precios subieron.",
        ),
        (
            "it",
            "italian",
            "Le case sul fiume sono state vendute l'anno scorso e i prezzi sono saliti.",
        ),
        (
            "nl",
            "dutch",
            "De huizen aan de rivier werden vorig jaar verkocht en de prijzen stegen.",
        ),
        (
            "sv",
            "swedish",
            "Husen vid floden såldes förra året och priserna steg mycket snabbt.",
        ),
        (
            "ru",
            "russian",
            "Дома у реки были проданы в прошлом году, и цены выросли.",
        ),
        (
            "el",
            "greek",
            "Τα σπίτια δίπλα στο ποτάμι πουλήθηκαν πέρυσι.",
        ),
        ("zh", "simple", "河边的房子去年卖掉了。"),
        ("ja", "simple", "川のそばの家は去年売れました。"),
        (
            "pl",
            "simple",
            "Domy nad rzeką zostały sprzedane w zeszłym roku, a ceny wzrosły.",
        ),
    ];

    #[test]
    fn configurations_belong_to_languages() {
        for (code, config, text) in TEXTS {
            assert_eq!(detect(text), code, "{text}");
            assert_eq!(config_name(code), config);
        }
        assert_eq!(config_name(UNDETERMINED), SIMPLE);
    }

    #[test]
    fn languages_have_several_names() {
        for name in ["de", "de-CH", "DE_at", "deu", "German", " german "] {
            assert_eq!(config_name(name), "german", "{name}");
        }
        for name in ["", "nb", "klingon", "en\u{1}x", "pl", "d"] {
            let expected = if name == "nb" { "norwegian" } else { SIMPLE };
            assert_eq!(config_name(name), expected, "{name:?}");
        }
        assert_eq!(config_names().count(), CONFIGURED.len() + 1);
    }
}
