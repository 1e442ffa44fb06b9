//! What a bundle is of, without an import.

use std::io::{self, Read};

use pgrx::datum::TimestampWithTimeZone;
use rag_bundle::{BundleError, BundleFile, Metadata, Summed};

use super::{BundleSource, import::read_metadata, rows};
use crate::{error::Error, pg::wait::check_for_interrupts};

/// Number of bytes that are read at once.
const PART: u64 = 1 << 20;

/// The metadata of a bundle.
pub struct BundleInfo {
    pub metadata: Metadata,
    pub created_at: TimestampWithTimeZone,
    pub updated_at: TimestampWithTimeZone,
    pub exported_at: TimestampWithTimeZone,
}

/// Reads the metadata. `verify` also compares size and SHA-256 of each other file.
///
/// # Errors
/// The metadata are damaged or of another version, or a file is another one.
pub fn read_info(bundle: &impl BundleSource, verify: bool) -> Result<BundleInfo, Error> {
    let metadata = read_metadata(bundle)?;
    if verify {
        for file in BundleFile::ALL {
            if file != BundleFile::Metadata {
                verify_file(bundle, &metadata, file)?;
            }
        }
    }
    let [created_at, updated_at, exported_at] = rows::times([
        &metadata.created_at,
        &metadata.updated_at,
        &metadata.exported_at,
    ])?;
    Ok(BundleInfo {
        metadata,
        created_at,
        updated_at,
        exported_at,
    })
}

fn verify_file(
    bundle: &impl BundleSource,
    metadata: &Metadata,
    file: BundleFile,
) -> Result<(), Error> {
    let sum = metadata.sum(file);
    let mut rest = sum.bytes;
    let mut summed = Summed::new(file, bundle.open(file)?, sum);
    while rest > 0 {
        check_for_interrupts();
        let mut part = (&mut summed).take(rest.min(PART));
        let read = io::copy(&mut part, &mut io::sink())
            .map_err(|e| BundleError::io(&format!("read {}", file.name()), &e))?;
        if read == 0 {
            break;
        }
        rest -= read;
    }
    Ok(summed.finish()?)
}
