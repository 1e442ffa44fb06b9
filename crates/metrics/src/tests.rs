use super::*;

const FAMILIES: &[Family] = &[
    Family::counter("a_seconds_total", "A \"time\"."),
    Family::histogram("b_seconds", "B."),
    Family::gauge("c", "C."),
];

fn sample(name: &str, labels: &[(&str, &str)], value: f64) -> Sample {
    let own = |(label, value): &(&str, &str)| (label.to_string(), value.to_string());
    Sample {
        name: name.into(),
        labels: labels.iter().map(own).collect(),
        value,
    }
}

#[test]
fn samples_are_written_by_family() {
    let samples = [
        sample("b_seconds_count", &[("x", "1")], 3.0),
        sample("b_seconds_bucket", &[("x", "1"), ("le", "+Inf")], 3.0),
        sample("b_seconds_bucket", &[("x", "1"), ("le", "10.0")], 2.0),
        sample("a_seconds_total", &[("of", "x\"y\\\n")], 0.5),
        sample("b_seconds_bucket", &[("x", "1"), ("le", "2.0")], 1.0),
        sample("b_seconds_sum", &[("x", "1")], 30.0),
        sample("nobody_knows_it", &[], 1.0),
        sample("b_seconds_bucket", &[("x", "0"), ("le", "+Inf")], 0.0),
    ];
    let text = text(FAMILIES, &samples, Format::OpenMetrics);
    assert_eq!(
        text,
        "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds A \\\"time\\\".\n\
         a_seconds_total{of=\"x\\\"y\\\\\\n\"} 0.5\n\
         # TYPE b_seconds histogram\n# UNIT b_seconds seconds\n# HELP b_seconds B.\n\
         b_seconds_bucket{x=\"0\",le=\"+Inf\"} 0\n\
         b_seconds_bucket{x=\"1\",le=\"2.0\"} 1\n\
         b_seconds_bucket{x=\"1\",le=\"10.0\"} 2\n\
         b_seconds_bucket{x=\"1\",le=\"+Inf\"} 3\n\
         b_seconds_sum{x=\"1\"} 30\n\
         b_seconds_count{x=\"1\"} 3\n\
         # TYPE c gauge\n# HELP c C.\n"
    );
}

#[test]
fn counters_have_their_whole_name_in_the_format_of_prometheus() {
    let text = text(
        FAMILIES,
        &[sample("a_seconds_total", &[], f64::INFINITY)],
        Format::Prometheus,
    );
    assert!(text.starts_with(
        "# TYPE a_seconds_total counter\n# HELP a_seconds_total A \\\"time\\\".\n\
         a_seconds_total +Inf\n# TYPE b_seconds histogram\n"
    ));
    assert!(!text.contains("UNIT"));
}

#[test]
fn families_have_different_names_that_tell_their_kind() {
    for (n, family) in families::ALL.iter().enumerate() {
        let is_counter = family.kind == Kind::Counter;
        assert_eq!(
            family.name.ends_with("_total"),
            is_counter,
            "{}",
            family.name
        );
        assert!(family.help.ends_with('.'), "{}", family.help);
        let others = &families::ALL[n + 1..];
        assert!(
            others
                .iter()
                .all(|other| other.base_name() != family.base_name())
        );
    }
}

/// Returns the names in a text that look like those of metrics of the extension. Functions are
/// none.
fn names(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || "_(".contains(c);
    text.split(|c| !is_name(c))
        .flat_map(|part| part.split_inclusive('('))
        .filter(|name| name.starts_with("rag_") && !name.ends_with('('))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_view_has_all_families_and_no_others() {
    let sql = include_str!("../../../sql/metrics.sql");
    let view = &sql[sql.find("CREATE VIEW rag.metrics").unwrap()..];
    let view = &view[..view.find("COMMENT ON VIEW rag.metrics").unwrap()];
    let quoted: Vec<String> = view
        .split('\'')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("rag_"))
        .map(str::to_owned)
        .collect();
    for name in &quoted {
        assert!(families::of(name).is_some(), "{name} is no family");
    }
    for family in families::ALL
        .iter()
        .filter(|it| it.scope == Scope::Database)
    {
        assert!(
            quoted.iter().any(|name| family.has(name)),
            "{} is missing",
            family.name
        );
    }
}

#[test]
fn the_reference_describes_all_families() {
    let page = include_str!("../../../docs/reference/views.md");
    for family in families::ALL {
        assert!(
            page.contains(&format!("`{}`", family.name)),
            "{} is missing",
            family.name
        );
    }
}

#[test]
fn rules_and_board_name_families() {
    for file in [
        include_str!("../../../monitoring/rag.rules.yml"),
        include_str!("../../../monitoring/rag.dashboard.json"),
    ] {
        let names = names(file);
        assert!(!names.is_empty());
        for name in names {
            assert!(families::of(&name).is_some(), "{name} is no family");
        }
    }
}
