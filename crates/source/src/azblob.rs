//! A container of Azure Blob Storage.

use rag_definition::source::AzblobSpec;
use rag_protocol::{EngineError, ingest::Job};
use url::Url;

use crate::{
    OpenReader, SourceReader,
    objects::{
        Bucket, ListedObject, MAX_PAGE, ObjectPage, ObjectStorage, Objects, PAGE_KEYS,
        access::Access,
        client::ObjectError,
        refusal::{Explanation, Refusal},
        url_below, with_query,
        xml::{read, shown},
    },
};

struct Container(Bucket);

impl OpenReader for AzblobSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        let access = match &job.credentials {
            Some(credentials) => Access::azure(credentials, &self.account)?,
            None if self.instance_identity => Access::azure_machine(&self.account)?,
            None => Access::PublicAzure,
        };
        let container = self.container.clone();
        let explain =
            move |refusal: &Refusal, access: &Access| explain(refusal, access, &container);
        let url = self.container_url();
        let names = (
            format!("container \"{}\"", self.container),
            format!("{url}/"),
        );
        let bucket = Bucket::open(job, names, &url, access, Box::new(explain))?;
        Ok(Box::new(Objects::open(
            Container(bucket),
            &self.objects,
            job,
        )?))
    }
}

impl ObjectStorage for Container {
    const VERSION_HEADER: &'static str = "x-ms-version-id";

    fn bucket(&self) -> &Bucket {
        &self.0
    }

    fn list_page(&self, prefix: &str, page: Option<&str>) -> Result<ObjectPage, ObjectError> {
        let mut query = vec![
            ("restype", "container"),
            ("comp", "list"),
            ("maxresults", PAGE_KEYS),
            ("prefix", prefix),
        ];
        query.extend(page.map(|marker| ("marker", marker)));
        let answer = self
            .0
            .client
            .get(&with_query(self.0.url.clone(), &query), MAX_PAGE)?;
        azure_page(&answer.bytes).map_err(ObjectError::Invalid)
    }

    fn url(&self, key: &str, _version: Option<&str>) -> Option<Url> {
        url_below(&self.0.url, key)
    }
}

/// Reads a page of a list.
///
/// # Errors
/// Says why it is none.
fn azure_page(document: &[u8]) -> Result<ObjectPage, String> {
    let (mut page, mut object) = (ObjectPage::default(), ListedObject::default());
    let mut is_folder = false;
    read(document, |names, text| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if names[0] != "EnumerationResults" {
            return Err(format!("it is \"{}\"", shown(names[0])));
        }
        match names[1..] {
            ["Blobs", "Blob", "Name"] => object.key = text.into(),
            ["Blobs", "Blob", "Properties", "Content-Length"] => {
                let size = text.trim().parse();
                object.size = size.map_err(|_| format!("\"{}\" is not a size", shown(text)))?;
            }
            ["Blobs", "Blob", "Properties", "Etag"] => object.etag = Some(text.into()),
            // in accounts with a hierarchical namespace
            ["Blobs", "Blob", "Properties", "ResourceType"] => is_folder = text == "directory",
            ["Blobs", "Blob"] => {
                let object = std::mem::take(&mut object);
                if object.key.is_empty() {
                    return Err("an object has no key".into());
                }
                if !std::mem::take(&mut is_folder) {
                    page.objects.push(object);
                }
            }
            ["NextMarker"] => page.next = Some(text.to_owned()).filter(|it| !it.is_empty()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(page)
}

fn explain(refusal: &Refusal, access: &Access, container: &str) -> Explanation {
    let missing = format!("there is no container \"{container}\"");
    match &*refusal.code {
        "ContainerNotFound" => Explanation::unavailable(
            missing,
            "Check \"account\", \"container\" and \"endpoint\".",
        ),
        "ResourceNotFound" | "PublicAccessNotPermitted" if access.is_public() => {
            Explanation::denied(
                "it does not exist, or is not public",
                "If it exists, create a secret and name it in the source's credentials.",
            )
        }
        "BlobNotFound" | "ResourceNotFound" => {
            Explanation::without_hint("it was removed after it was listed")
        }
        "BlobArchived" | "BlobBeingRehydrated" => Explanation::unavailable(
            "the object is archived",
            "Rehydrate it, or leave it out with \"excludePaths\".",
        ),
        _ => refusal.explained(
            access,
            "A key must be one of the account, and not be rotated. A shared access signature needs \
             the rights to read and to list, and must not have expired. The identity of a machine \
             needs the role Storage Blob Data Reader.",
            "Azure Blob Storage",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_listed_and_folders_are_not() {
        let page = azure_page(
            b"\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>\
              <Blob><Name>a &amp; b+.md</Name><Properties><Content-Length>7</Content-Length>\
              <Etag>0x8D</Etag></Properties></Blob>\
              <Blob><Name>docs</Name><Properties><ResourceType>directory</ResourceType>\
              </Properties></Blob>\
              <Blob><Name Encoded=\"true\">x%EF%BF%BE%0A.md</Name></Blob>\
              </Blobs><NextMarker>more</NextMarker></EnumerationResults>",
        )
        .unwrap();
        let keys: Vec<_> = page
            .objects
            .iter()
            .map(|object| object.key.as_str())
            .collect();
        assert_eq!(keys, ["a & b+.md", "x\u{FFFE}\n.md"]);
        assert_eq!(
            (page.objects[0].size, page.next.as_deref()),
            (7, Some("more"))
        );
        assert_eq!(page.objects[0].etag.as_deref(), Some("0x8D"));
        assert_eq!(azure_page(b"<Error/>"), Err("it is \"Error\"".into()));
    }
}
