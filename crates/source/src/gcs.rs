//! A bucket of Google Cloud Storage, by its interface in JSON.

use percent_encoding::utf8_percent_encode;
use rag_definition::source::GcsSpec;
use rag_protocol::{EngineError, ingest::Job};
use reqwest::StatusCode;
use serde::Deserialize;
use url::Url;

use crate::{
    OpenReader, SourceReader,
    objects::{
        Bucket, ListedObject, MAX_PAGE, ObjectPage, ObjectStorage, Objects, PAGE_KEYS, STRICT,
        access::Access,
        client::ObjectError,
        refusal::{Explanation, Refusal},
        with_query,
    },
};

/// The URL is that of the bucket's objects.
struct Gcs(Bucket);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    /// A number in quotes.
    size: Option<String>,
    /// Changes with the content, and not with the metadata as the ETag does. A number in quotes.
    generation: Option<String>,
}

impl OpenReader for GcsSpec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        let url = format!("{}/storage/v1/b/{}/o", self.endpoint, self.bucket);
        let access = match &job.credentials {
            Some(credentials) => Access::google(credentials)?,
            None if self.instance_identity => Access::google_machine()?,
            None => Access::Public,
        };
        let bucket = self.bucket.clone();
        let explain = move |refusal: &Refusal, access: &Access| explain(refusal, access, &bucket);
        let names = (
            format!("bucket \"{}\"", self.bucket),
            format!("gs://{}/", self.bucket),
        );
        let bucket = Bucket::open(job, names, &url, access, Box::new(explain))?;
        Ok(Box::new(Objects::open(Gcs(bucket), &self.objects, job)?))
    }
}

impl ObjectStorage for Gcs {
    const VERSION_HEADER: &'static str = "x-goog-generation";

    fn bucket(&self) -> &Bucket {
        &self.0
    }

    fn list_page(&self, prefix: &str, page: Option<&str>) -> Result<ObjectPage, ObjectError> {
        let mut query = vec![
            ("fields", "items(name,size,generation),nextPageToken"),
            ("maxResults", PAGE_KEYS),
            ("prefix", prefix),
        ];
        query.extend(page.map(|token| ("pageToken", token)));
        let answer = self
            .0
            .client
            .get(&with_query(self.0.url.clone(), &query), MAX_PAGE)?;
        google_page(&answer.bytes).map_err(ObjectError::Invalid)
    }

    fn url(&self, key: &str, _version: Option<&str>) -> Option<Url> {
        // the key is one part of the path, slashes included
        let path = format!("{}/{}", self.0.url.path(), utf8_percent_encode(key, STRICT));
        let mut url = self.0.url.clone();
        url.set_path(&path);
        (url.path() == path).then(|| with_query(url, &[("alt", "media")]))
    }
}

/// Reads a page of a list.
///
/// # Errors
/// Says why it is none.
fn google_page(document: &[u8]) -> Result<ObjectPage, String> {
    let page: Page =
        serde_json::from_slice(document).map_err(|error| format!("it is not valid: {error}"))?;
    let mut objects = Vec::with_capacity(page.items.len());
    for item in page.items {
        let size = match item.size.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(size)) => size,
            Some(Err(_)) => return Err("an object has an invalid size".into()),
        };
        if item.name.is_empty() {
            return Err("an object has no key".into());
        }
        objects.push(ListedObject {
            key: item.name,
            size,
            etag: item.generation,
            version: None,
        });
    }
    Ok(ObjectPage {
        objects,
        next: page.next_page_token.filter(|token| !token.is_empty()),
    })
}

fn explain(refusal: &Refusal, access: &Access, bucket: &str) -> Explanation {
    if refusal.status == StatusCode::NOT_FOUND && refusal.message.contains("bucket") {
        let message = format!("there is no bucket \"{bucket}\"");
        return Explanation::unavailable(message, "Check \"bucket\" and \"endpoint\".");
    }
    if refusal.status == StatusCode::NOT_FOUND && refusal.code == "notFound" {
        return Explanation::without_hint("it does not exist, or was removed after it was listed");
    }
    refusal.explained(
        access,
        "The service account needs the role Storage Object Viewer on the bucket, and its key must \
         not be disabled.",
        "Google Cloud Storage",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_known_by_their_generation() {
        let page = google_page(
            br#"{"kind": "storage#objects", "nextPageToken": "more", "items":
                [{"name": "a/b.md", "size": "7", "generation": "17", "etag": "CJ"}]}"#,
        );
        let object = ListedObject {
            key: "a/b.md".into(),
            size: 7,
            etag: Some("17".into()),
            version: None,
        };
        let expected = ObjectPage {
            objects: vec![object],
            next: Some("more".into()),
        };
        assert_eq!(page, Ok(expected));
        assert_eq!(google_page(b"{}"), Ok(ObjectPage::default()));
        assert!(google_page(b"<html>").is_err());
        let negative = br#"{"items": [{"name": "a", "size": "-1"}]}"#;
        assert_eq!(
            google_page(negative),
            Err("an object has an invalid size".into())
        );
    }
}
