//! The note on a run that completed.

use rag_definition::source::SourceSpec;

use crate::sync::report::Report;

/// Returns a note if the run found no document at all, or skipped files that a person may look for.
pub fn note(spec: &SourceSpec, report: &Report) -> Option<String> {
    let skipped = report.skipped.described();
    match (nothing_found(spec, report), skipped) {
        (Some(note), Some(skipped)) => Some(format!("{note}: {skipped}")),
        (Some(note), None) => Some(note),
        (None, skipped) => skipped.map(|skipped| format!("skipped {skipped}")),
    }
}

/// A table may be empty without a note.
fn nothing_found(spec: &SourceSpec, report: &Report) -> Option<String> {
    let (filter, [paths, exclude_paths]) = spec.path_filter()?;
    if report.counts.done() > 0 {
        return None;
    }
    Some(match report.counts.skipped {
        0 if filter.paths.is_empty() && filter.exclude_paths.is_empty() => {
            "the source has no files".into()
        }
        0 => format!("no file matches the patterns of \"{paths}\" and \"{exclude_paths}\""),
        1 => "no documents were found; 1 file was skipped".into(),
        n => format!("no documents were found; {n} files were skipped"),
    })
}
