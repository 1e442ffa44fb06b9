//! The child's side: `rag-engine extract`.

use std::{io, process::ExitCode};

use rag_document::ExtractedDocument;
use rag_protocol::frame;

use super::{CPU_SECONDS, Order, Outcome};
use crate::{
    embed::counter::ChunkCounter,
    pdfs,
    process::{self, Limit},
    sandbox::{Mode, Reach},
};

/// Answers orders until standard input ends. With `recognizes`, pages that are pictures are read,
/// too.
pub fn child(memory: u64, pdfs: &pdfs::Options, recognizes: bool, sandbox: Mode) -> ExitCode {
    match serve(memory, pdfs, recognizes, sandbox) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("extract: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(
    memory: u64,
    pdfs: &pdfs::Options,
    recognizes: bool,
    sandbox: Mode,
) -> Result<(), Box<dyn std::error::Error>> {
    process::limit(Limit::AddressSpace(memory))?;
    process::limit(Limit::FileSize(0))?;
    process::limit(Limit::OpenFiles(32))?;
    process::limit(process::NO_CORE_DUMP)?;
    let mut output = process::take_stdout()?;
    let (reader, cpu_seconds) = if recognizes {
        match pdfs.recognizing_reader() {
            Ok(reader) => (reader, CPU_SECONDS + pdfs.recognition_time().as_secs()),
            Err(reason) => {
                let answer = Outcome::NoRecognition(reason);
                return Ok(frame::write(&mut output, &answer, &[])?);
            }
        }
    } else {
        (pdfs.reader(), CPU_SECONDS)
    };
    Reach::nothing().enter(sandbox)?;
    let mut input = io::stdin().lock();
    while let Some(message) = frame::read(&mut input)? {
        process::limit_cpu_from_now(cpu_seconds)?;
        let done = match message.header()? {
            Order::Extract {
                document_type,
                name,
                media_type,
                alone,
            } => {
                let media_type = media_type.as_deref();
                let extract = match alone {
                    true => rag_document::extract_alone,
                    false => rag_document::extract_with,
                };
                extract(&reader, &message.payload, document_type, &name, media_type).map(
                    |extracted| {
                        let text = extracted.text;
                        (
                            Outcome::ExtractedDocument(ExtractedDocument {
                                text: String::new(),
                                ..extracted
                            }),
                            text,
                        )
                    },
                )
            }
            Order::Unpack {
                container,
                name,
                unpacking,
            } => {
                let mut broken = None;
                let done = rag_document::unpack(
                    container,
                    &message.payload,
                    &name,
                    unpacking,
                    &mut |mut member| {
                        let bytes = std::mem::take(&mut member.bytes);
                        let sent = frame::write(&mut output, &Outcome::Member(member), &bytes)
                            .and_then(|()| Ok(process::limit_cpu_from_now(cpu_seconds)?));
                        broken = sent.err();
                        broken.is_none()
                    },
                );
                if let Some(broken) = broken {
                    return Err(broken.into());
                }
                done.map(|skipped| (Outcome::Unpacked(skipped), String::new()))
            }
            Order::Split {
                document_type,
                extracted,
                text_bytes,
                splitting,
                max_tokens,
            } => {
                let (text, json) = message
                    .payload
                    .split_at_checked(text_bytes)
                    .ok_or("a text is missing")?;
                let tokens = ChunkCounter::rebuilt(json, max_tokens)?;
                let extracted = ExtractedDocument {
                    text: str::from_utf8(text)?.into(),
                    ..*extracted
                };
                drop(message);
                rag_document::content(&extracted, document_type, &splitting, &tokens)
                    .map(|content| (Outcome::Content(content), String::new()))
            }
        };
        match done {
            Ok((outcome, text)) => frame::write(&mut output, &outcome, text.as_bytes())?,
            Err(problem) => frame::write(&mut output, &Outcome::Failed(problem), &[])?,
        }
    }
    Ok(())
}
