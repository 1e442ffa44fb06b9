//! The metrics of the extension, and the text formats that Prometheus scrapes.
//!
//! A [`Sample`] is one value with its labels. [`text`] writes samples family by family, with what
//! is known of each [`Family`]. [`families`] has those of the view `rag.metrics`.

pub mod families;

use std::{collections::HashMap, fmt::Write};

/// What a value of a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only increases. The name ends with `_total`.
    Counter,
    Gauge,
    /// Its samples have the suffixes `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// What the values of a family are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of one database, which the label `database` names in texts about several.
    Database,
    /// Of the server.
    Server,
}

/// Samples with the same name.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name, with `_total`, and without the suffixes of a histogram.
    pub name: &'static str,
    pub kind: Kind,
    pub scope: Scope,
    /// One line.
    pub help: &'static str,
}

impl Family {
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Counter, help)
    }

    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Gauge, help)
    }

    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Histogram, help)
    }

    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self {
            name,
            kind,
            scope: Scope::Database,
            help,
        }
    }

    /// Returns the family as one of the server.
    #[must_use]
    pub const fn of_server(self) -> Self {
        Self {
            scope: Scope::Server,
            ..self
        }
    }

    /// Returns true if samples of this name belong to the family.
    pub fn has(&self, sample: &str) -> bool {
        match (self.kind, sample.strip_prefix(self.name)) {
            (Kind::Histogram, Some(suffix)) => ["_bucket", "_sum", "_count"].contains(&suffix),
            (_, suffix) => suffix == Some(""),
        }
    }

    /// Returns the name without the suffix of counters, as OpenMetrics declares it.
    fn base_name(&self) -> &'static str {
        self.name.strip_suffix("_total").unwrap_or(self.name)
    }

    /// Returns the unit that the name ends with.
    fn unit(&self) -> Option<&'static str> {
        let name = self.base_name();
        let units = ["seconds", "bytes", "ratio"];
        units.into_iter().find(|unit| {
            name.strip_suffix(unit)
                .is_some_and(|rest| rest.ends_with('_'))
        })
    }
}

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// Returns the media type of the format.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A value with its name and labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    /// In the order in which they are written. That of `le` is the last.
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Sample {
    /// Returns the line of the sample.
    pub fn line(&self) -> String {
        let mut line = self.name.clone();
        for (n, (label, value)) in self.labels.iter().enumerate() {
            line.push_str(if n == 0 { "{" } else { "," });
            let _ = write!(line, "{label}=\"{}\"", escaped(value));
        }
        if !self.labels.is_empty() {
            line.push('}');
        }
        let _ = match self.value {
            value if value.is_nan() => write!(line, " NaN"),
            f64::INFINITY => write!(line, " +Inf"),
            f64::NEG_INFINITY => write!(line, " -Inf"),
            value => write!(line, " {value}"),
        };
        line
    }

    /// Returns what orders samples within a family: their labels, then the buckets of a histogram,
    /// its sum and its count.
    fn order(&self) -> (Vec<(String, String)>, u8, f64) {
        let (limits, labels): (Vec<_>, Vec<_>) = self
            .labels
            .iter()
            .cloned()
            .partition(|(label, _)| label == "le");
        let limit = limits.first().and_then(|(_, limit)| limit.parse().ok());
        let part = match &self.name {
            name if name.ends_with("_sum") => 1,
            name if name.ends_with("_count") => 2,
            _ => 0,
        };
        (labels, part, limit.unwrap_or(f64::INFINITY))
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Returns the text of all samples that belong to one of the families, in the order of the
/// families, without an end of the text. Families without samples are declared, too.
pub fn text(families: &[Family], samples: &[Sample], format: Format) -> String {
    let mut by_family: HashMap<&str, Vec<&Sample>> = HashMap::new();
    for sample in samples {
        if let Some(family) = families.iter().find(|family| family.has(&sample.name)) {
            by_family.entry(family.name).or_default().push(sample);
        }
    }
    let mut text = String::new();
    for family in families {
        declare(&mut text, family, format);
        let mut samples = by_family.remove(family.name).unwrap_or_default();
        samples.sort_by(|a, b| {
            let (a, b) = (a.order(), b.order());
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2))
        });
        for sample in samples {
            text.push_str(&sample.line());
            text.push('\n');
        }
    }
    text
}

fn declare(text: &mut String, family: &Family, format: Format) {
    let name = match format {
        Format::Prometheus => family.name,
        Format::OpenMetrics => family.base_name(),
    };
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if format == Format::OpenMetrics
        && let Some(unit) = family.unit()
    {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {}", escaped(family.help));
}

/// Returns what ends a text of this format.
pub fn end(format: Format) -> &'static str {
    match format {
        Format::Prometheus => "",
        Format::OpenMetrics => "# EOF\n",
    }
}

#[cfg(test)]
mod tests;
