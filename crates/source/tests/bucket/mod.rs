//! A server on loopback that speaks the protocol of S3, and refuses what S3 refuses: it computes
//! each signature again, from the request as it came.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use percent_encoding::percent_decode_str;
use ring::{digest, hmac};

use crate::web::{HttpRequest, Reply, Server};

pub const KEY_ID: &str = "AKIDEXAMPLE";
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
/// What a token of a machine is signed with and sent beside.
pub const SESSION_TOKEN: &str = "token-of-the-machine==";
pub const REGION: &str = "eu-central-1";
pub const BUCKET: &str = "shelf";

pub struct Bucket {
    pub server: Server,
    state: Arc<Mutex<State>>,
}

/// What the server has, and how it answers.
pub struct State {
    pub objects: BTreeMap<String, Stored>,
    pub is_public: bool,
    /// Requests must have a token beside the signature.
    pub needs_token: bool,
    pub page: usize,
    /// How much the server's clock is ahead.
    pub clock: Duration,
    pub has_etags: bool,
    /// The next answers, before anything else.
    pub faults: Vec<Reply>,
    /// All answers, instead of the own ones.
    pub answer: Option<Answer>,
}

pub type Answer = Arc<dyn Fn(&HttpRequest) -> Option<Reply> + Send + Sync>;

#[derive(Clone)]
pub struct Stored {
    /// The last one is the current one.
    pub versions: Vec<Vec<u8>>,
    pub headers: Vec<(String, String)>,
    pub is_archived: bool,
}

impl Bucket {
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            is_public: false,
            needs_token: false,
            page: 1000,
            clock: Duration::ZERO,
            has_etags: true,
            faults: vec![],
            answer: None,
        }));
        let shared = Arc::clone(&state);
        let server = Server::start(move |request| shared.lock().unwrap().answer(request));
        Self { server, state }
    }

    pub fn of(objects: &[(&str, &str)]) -> Self {
        let bucket = Self::start();
        for (key, text) in objects {
            bucket.put(key, text);
        }
        bucket
    }

    pub fn put(&self, key: &str, text: &str) {
        self.state().put(key, text);
    }

    pub fn remove(&self, key: &str) {
        self.state().objects.remove(key);
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    pub fn put(&mut self, key: &str, text: &str) {
        let stored = self.objects.entry(key.into()).or_insert(Stored {
            versions: vec![],
            headers: vec![],
            is_archived: false,
        });
        stored.versions.push(text.into());
    }

    fn answer(&mut self, request: &HttpRequest) -> Reply {
        if !self.faults.is_empty() {
            return self.faults.remove(0);
        }
        let own = self.answer.clone().and_then(|answer| answer(request));
        own.unwrap_or_else(|| self.checked(request).unwrap_or_else(|refused| refused))
    }

    fn checked(&self, request: &HttpRequest) -> Result<Reply, Reply> {
        let (path, query) = request
            .target
            .split_once('?')
            .unwrap_or((&request.target, ""));
        self.authorize(request, path, query)?;
        let Some(key) = path.strip_prefix(&format!("/{BUCKET}/")) else {
            return Err(refused("404 Not Found", "NoSuchBucket", ""));
        };
        let query = pairs(query);
        let get = |name: &str| query.get(name).map(String::as_str);
        if request.method != "GET" {
            return Err(refused("405 Method Not Allowed", "MethodNotAllowed", ""));
        }
        match (key, get("list-type"), get("versions")) {
            ("", Some("2"), None) => Ok(self.list(&query)),
            ("", None, Some("")) => Ok(self.list_versions(&query)),
            ("", ..) => Err(refused("400 Bad Request", "InvalidArgument", "")),
            (key, None, None) => self.object(&decoded(key), get("versionId")),
            _ => Err(refused("400 Bad Request", "InvalidArgument", "")),
        }
    }

    fn object(&self, key: &str, version: Option<&str>) -> Result<Reply, Reply> {
        let missing = || refused("404 Not Found", "NoSuchKey", "");
        let stored = self.objects.get(key).ok_or_else(missing)?;
        if stored.is_archived {
            return Err(refused("403 Forbidden", "InvalidObjectState", ""));
        }
        let last = stored.versions.len() - 1;
        let number = version.map_or(Some(last), |version| {
            version.strip_prefix('v')?.parse().ok()
        });
        let bytes = number.and_then(|number| stored.versions.get(number));
        let bytes = bytes.ok_or_else(|| refused("404 Not Found", "NoSuchVersion", ""))?;
        let version = format!("v{}", number.unwrap_or_default());
        let mut headers = vec![
            ("Content-Type", "binary/octet-stream"),
            ("x-amz-version-id", &version),
            ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ];
        let own = stored
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value));
        headers.extend(own);
        Ok(Reply::new("200 OK", &headers, bytes))
    }

    fn entry(&self, key: &str, bytes: &[u8]) -> String {
        let etag = hex(digest::digest(&digest::SHA256, bytes).as_ref());
        let etag = if self.has_etags {
            format!("<ETag>&quot;{etag}&quot;</ETag>")
        } else {
            String::new()
        };
        let (key, size) = (form_encoded(key), bytes.len());
        format!("<Key>{key}</Key>{etag}<Size>{size}</Size><StorageClass>STANDARD</StorageClass>")
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Reply {
        assert_eq!(query["encoding-type"], "url");
        let prefix = &query["prefix"];
        let after = query.get("continuation-token").map_or("", String::as_str);
        let after = after.strip_prefix("after ").unwrap_or("");
        let mut keys = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after);
        let mut body = "<EncodingType>url</EncodingType>".to_owned();
        let mut last = None;
        for (key, stored) in keys.by_ref().take(self.page) {
            let entry = self.entry(key, stored.versions.last().unwrap());
            body += &format!("<Contents>{entry}</Contents>");
            last = Some(key);
        }
        if keys.next().is_some() {
            let token = format!("after {}", last.unwrap());
            body += "<IsTruncated>true</IsTruncated>";
            body += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
        }
        list("ListBucketResult", &body)
    }

    fn list_versions(&self, query: &BTreeMap<String, String>) -> Reply {
        let get = |name: &str| query.get(name).map_or("", String::as_str);
        let mut all = vec![];
        for (key, stored) in &self.objects {
            for (number, bytes) in stored.versions.iter().enumerate().rev() {
                all.push((key.as_str(), format!("v{number}"), bytes));
            }
        }
        let marker = (get("key-marker"), get("version-id-marker"));
        let start = all
            .iter()
            .position(|(key, version, _)| (*key, &**version) == marker);
        let mut rest = all.iter().skip(start.map_or(0, |start| start + 1));
        let mut body = "<EncodingType>url</EncodingType>".to_owned();
        let mut last = None;
        for (key, version, bytes) in rest.by_ref().take(self.page) {
            let entry = self.entry(key, bytes);
            body += &format!("<Version>{entry}<VersionId>{version}</VersionId></Version>");
            body += "<DeleteMarker><Key>gone.md</Key><VersionId>v9</VersionId></DeleteMarker>";
            last = Some((*key, version));
        }
        if let (Some(_), Some((key, version))) = (rest.next(), last) {
            let key = form_encoded(key);
            body += "<IsTruncated>true</IsTruncated>";
            body += &format!("<NextKeyMarker>{key}</NextKeyMarker>");
            body += &format!("<NextVersionIdMarker>{version}</NextVersionIdMarker>");
        }
        list("ListVersionsResult", &body)
    }

    /// Checks the signature of a request: docs.aws.amazon.com, "Authenticating Requests: Using the
    /// Authorization Header".
    fn authorize(&self, request: &HttpRequest, path: &str, query: &str) -> Result<(), Reply> {
        let denied = |code: &str| refused("403 Forbidden", code, "");
        let Some(authorization) = request.header("authorization") else {
            return if self.is_public {
                Ok(())
            } else {
                Err(denied("AccessDenied"))
            };
        };
        let malformed = || refused("400 Bad Request", "AuthorizationHeaderMalformed", "");
        let fields = authorization
            .strip_prefix("AWS4-HMAC-SHA256 ")
            .ok_or_else(malformed)?;
        let fields: BTreeMap<&str, &str> = fields
            .split(", ")
            .filter_map(|field| field.split_once('='))
            .collect();
        let scope: Vec<&str> = fields["Credential"].split('/').collect();
        let [key_id, day, region, "s3", "aws4_request"] = scope[..] else {
            return Err(malformed());
        };
        if key_id != KEY_ID {
            return Err(denied("InvalidAccessKeyId"));
        }
        if region != REGION {
            let region = format!("<Region>{REGION}</Region>");
            return Err(refused(
                "400 Bad Request",
                "AuthorizationHeaderMalformed",
                &region,
            ));
        }
        let time = request
            .header("x-amz-date")
            .ok_or_else(|| denied("AccessDenied"))?;
        let now = SystemTime::now() + self.clock;
        if seconds(now).abs_diff(seconds_of(time)) > 15 * 60 {
            let date = httpdate::fmt_http_date(now);
            return Err(denied("RequestTimeTooSkewed").header("Date", &date));
        }
        let names = fields["SignedHeaders"];
        let signed: Vec<&str> = names.split(';').collect();
        assert!(
            ["host", "x-amz-content-sha256", "x-amz-date"]
                .iter()
                .all(|it| signed.contains(it))
        );
        let token = request.header("x-amz-security-token");
        if self.needs_token
            && (token != Some(SESSION_TOKEN) || !signed.contains(&"x-amz-security-token"))
        {
            return Err(denied("InvalidToken"));
        }
        let headers = signed.iter().map(|name| {
            format!(
                "{name}:{}\n",
                request.header(name).unwrap_or_default().trim()
            )
        });
        let headers: String = headers.collect();
        let mut parts: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
        parts.sort_unstable();
        let (body, query) = (
            request.header("x-amz-content-sha256").unwrap(),
            parts.join("&"),
        );
        let canonical = format!("GET\n{path}\n{query}\n{headers}\n{names}\n{body}");
        let scope = format!("{day}/{region}/s3/aws4_request");
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
        let mut key = format!("AWS4{SECRET_KEY}").into_bytes();
        for part in [day, region, "s3", "aws4_request", &to_sign] {
            let hmac_key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&hmac_key, part.as_bytes()).as_ref().to_vec();
        }
        if hex(&key) == fields["Signature"] {
            Ok(())
        } else {
            Err(denied("SignatureDoesNotMatch"))
        }
    }
}

pub fn list(root: &str, inside: &str) -> Reply {
    let namespace = "http://s3.amazonaws.com/doc/2006-03-01/";
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <{root} xmlns=\"{namespace}\"><Name>{BUCKET}</Name>{inside}</{root}>"
    );
    Reply::ok("application/xml", body)
}

pub fn refused(status: &str, code: &str, more: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>Refused.</Message>{more}</Error>");
    Reply::ok("application/xml", body).status(status)
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

/// As S3 encodes keys of lists: like a form.
fn form_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// Reads `20261128T213000Z`.
fn seconds_of(time: &str) -> u64 {
    let number = |range: std::ops::Range<usize>| time[range].parse::<u64>().unwrap();
    // days since 1970, by the algorithm of Howard Hinnant
    let (year, month, day) = (number(0..4), number(4..6), number(6..8));
    let year = if month <= 2 { year - 1 } else { year };
    let era_year = year % 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = era_year * 365 + era_year / 4 - era_year / 100 + day_of_year;
    let days = (year / 400) * 146_097 + day_of_era - 719_468;
    days * 86_400 + number(9..11) * 3600 + number(11..13) * 60 + number(13..15)
}
