//! Logs to standard error, one line for each event: `LEVEL message key=value ...`. The parent
//! forwards it to the log of Postgres, which adds the time. It never contains texts of users or
//! secrets of a job.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use crate::redaction;

/// Starts logging of events at least as severe as `level`. Of panics only the location is logged: a
/// message may quote a text.
pub fn start(level: Level) {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .event_format(OneLine)
        .finish();
    // Fails only if logging has already been started.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(String::new, ToString::to_string);
        tracing::error!(place, "panic");
    }));
}

struct OneLine;

impl<S, N> FormatEvent<S, N> for OneLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        let fields = redaction::redacted(&fields);
        writeln!(
            writer,
            "{} {}",
            event.metadata().level(),
            fields.replace(['\n', '\r'], " ")
        )
    }
}
