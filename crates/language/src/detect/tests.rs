//! Texts of many languages, and the language that each is taken for.

use super::*;

fn all(texts: &[(&str, &str)]) {
    for (code, text) in texts {
        assert_eq!(detect(text), *code, "{text}");
    }
}

#[test]
fn the_script_decides_before_names_and_codes() {
    all(&[
        (
            "ja",
            "アップデート後、AquaPump X200にE-105が表示され、12分後に停止します。",
        ),
        ("ja", "E-117 エラーが出る"),
        ("ja", "https://example.org/support を参照"),
        ("ko", "AquaPump X200 이 물이 샙니다"),
        ("ko", "설치 후 GUI가 실행되지 않습니다 (Windows 11)"),
        ("th", "AquaPump X200 รั่ว"),
        ("el", "Το API του Python"),
        ("he", "איך מחדשים את המפתח של ה-API?"),
        (
            "uk",
            "Насос AquaPump X200 не працює після оновлення, що робити?",
        ),
        ("en", "The particle has a mass α and a spin β in this model"),
        ("de", "der Wert von µ ist 3"),
    ]);
}

#[test]
fn characters_tell_japanese_from_chinese() {
    all(&[
        ("ja", "水漏れ"),
        ("ja", "東京都庁"),
        ("zh", "设备显示错误E-117"),
        ("zh", "河边的房子去年卖掉了。"),
        ("zh", "本公司自成立以來持續提供優質服務"),
        (UNDETERMINED, "北京大学"),
    ]);
}

#[test]
fn frequent_words_tell_related_languages() {
    all(&[
        ("da", "Hvor er det nærmeste hospital nu?"),
        ("no", "Hvor er det nærmeste sykehuset nå?"),
        ("sv", "Var är närmaste sjukhus och när är det öppet?"),
        ("id", "Saya tidak bisa datang karena sakit"),
        ("ms", "Saya tidak boleh datang kerana sakit"),
        ("hr", "Gdje je najbliža bolnica?"),
        ("cs", "Které soubory jsou ve složce a jak je otevřu?"),
        ("sk", "Ktoré súbory sú v priečinku a ako ich otvorím?"),
        ("es", "¿Dónde está la llave y quién la tiene?"),
        ("ca", "On és la clau i qui la té? Això no ho sé."),
        ("pt", "Onde está a chave e quem a tem? Não sei."),
        ("ga", "Tá an doras dúnta agus níl an eochair ag an mbean."),
        ("eu", "Atea itxita dago eta giltza ez da hemen."),
    ]);
}

#[test]
fn texts_without_a_language_are_undetermined() {
    for text in [
        "",
        " \n",
        "42",
        "a",
        "ok",
        "¯\\_(ツ)_/¯ 17 %",
        "https://",
        "AquaPump X200",
        "٣",
        "१",
    ] {
        assert_eq!(detect(text), UNDETERMINED, "{text}");
    }
}

#[test]
fn a_short_text_has_the_language_around_it() {
    let of = |text, usual| of_document("", text, usual);
    assert_eq!(of("Pumpe E-117", None), UNDETERMINED);
    assert_eq!(of("Pumpe E-117", Some("de")), "de");
    assert_eq!(of("AquaPump X200", Some("ja")), "ja");
    assert_eq!(of("北京大学", Some("zh")), "zh");
    // letters that the language does not have
    assert_eq!(of("北京大学", Some("de")), UNDETERMINED);
    assert_eq!(of("Насос", Some("de")), UNDETERMINED);
    assert_eq!(of("Насос", Some("bg")), "bg");
    // what a text says itself counts more
    assert_eq!(
        of("The pump leaks, and I do not know why.", Some("de")),
        "en"
    );
    assert_eq!(of_document("E-117", "X 200", Some("fr")), "fr");
    assert_eq!(
        of_document("Die Pumpe ist nicht dicht", "E-117", None),
        "de"
    );
}

#[test]
fn the_usual_language_is_that_of_most_documents() {
    let usual = |counts: &[(&str, u64)]| {
        most_usual(
            counts
                .iter()
                .map(|(code, n)| ((*code).into(), *n))
                .collect(),
        )
    };
    assert_eq!(usual(&[]), None);
    assert_eq!(usual(&[("de", 2)]), None);
    assert_eq!(usual(&[("de", 3), ("en", 2)]).as_deref(), Some("de"));
    assert_eq!(usual(&[("de", 3), ("en", 3)]), None);
}

#[test]
fn the_longer_part_decides() {
    let german = "Die Häuser am Fluss wurden letztes Jahr verkauft, und die Preise stiegen. ";
    let english = "The houses at the river were sold last year, and the prices rose.";
    assert_eq!(detect(&format!("{english}\n\n{}", german.repeat(3))), "de");
    let far = format!("{}{}", english.repeat(200), german.repeat(2000));
    assert_eq!(detect(&far), "en", "the beginning");
}
