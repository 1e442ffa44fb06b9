//! Bundles in folders of the server.

use std::{fs::File, io::Read};

use rag_bundle::{
    BundleFile,
    folder::{FolderReader, Place},
};

use super::{BundleSource, CollectionExport, Exported, count_export};
use crate::{
    catalog::collections::Collection,
    collection::rights,
    error::Error,
    pg::{disk_space, roles, wait::check_for_interrupts},
    settings,
};

/// Writes the bundle of a collection into a folder.
///
/// # Errors
/// The caller may not export the collection or write files of the server, the folder exists or is
/// not in an allowed one, or there is not enough room.
pub fn export_to_folder(collection: &Collection, path: &str) -> Result<Exported, Error> {
    roles::require_written_server_files(roles::current())?;
    rights::require_owner(collection, "export collection")?;
    let counted = count_export(collection);
    let place = Place::find(path, &settings::bundle_folders())?;
    let mut export = CollectionExport::begin(collection)?;
    let to_do = format!("export collection \"{}\"", collection.name);
    disk_space::require(export.expected_bytes(), place.available_bytes()?, &to_do)?;
    let mut writer = place.create()?;
    while let Some(block) = export.next_block()? {
        writer.write(block.file, &block.bytes)?;
        check_for_interrupts();
    }
    for file in BundleFile::ALL {
        // the longest waits: a cancel is noticed between two files
        writer.sync(file)?;
        check_for_interrupts();
    }
    writer.finish()?;
    counted.succeed();
    Ok(export.exported())
}

/// Opens the bundle in a folder.
///
/// # Errors
/// The caller may not read files of the server, or the folder is not in an allowed one.
pub fn open_folder(path: &str) -> Result<impl BundleSource, Error> {
    roles::require_server_files(roles::current())?;
    let place = Place::find(path, &settings::bundle_folders())?;
    Ok(place.open()?)
}

impl BundleSource for FolderReader {
    fn open(&self, file: BundleFile) -> Result<Box<dyn Read>, Error> {
        let opened: File = FolderReader::open(self, file)?;
        Ok(Box::new(opened))
    }
}
