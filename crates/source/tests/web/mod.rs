//! A real HTTP server on loopback that answers as a test tells it, and badly where it tells it so.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Debug, Clone)]
pub struct HttpRequest {
    pub method: String,
    /// As it stands in the request line.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// How a connection goes on after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Stay,
    Close,
    Reset,
    /// Nothing more comes, and the connection stays open until the client closes it.
    Silence,
}

#[derive(Debug, Clone)]
pub struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

impl Reply {
    pub fn new(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status}\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        Self {
            bytes: [head.as_bytes(), b"\r\n", body].concat(),
            then: Then::Stay,
        }
    }

    /// A whole response, after which the connection is closed.
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            then: Then::Close,
        }
    }

    pub fn ok(media_type: &str, body: impl AsRef<[u8]>) -> Self {
        Self::new("200 OK", &[("Content-Type", media_type)], body)
    }

    pub fn html(body: &str) -> Self {
        Self::ok("text/html; charset=utf-8", body)
    }

    pub fn not_found() -> Self {
        Self::ok("text/html", "").status("404 Not Found")
    }

    pub fn redirect(location: &str) -> Self {
        Self::new("302 Found", &[("Location", location)], "")
    }

    pub fn status(mut self, status: &str) -> Self {
        let end = self.bytes.iter().position(|b| *b == b'\r').unwrap();
        self.bytes
            .splice(..end, format!("HTTP/1.1 {status}").into_bytes());
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        let end = self.bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
        let header = format!("{name}: {value}\r\n");
        self.bytes.splice(end..end, header.into_bytes());
        self
    }

    pub fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }

    /// Only the first bytes, head included.
    pub fn cut(mut self, missing: usize) -> Self {
        self.bytes.truncate(self.bytes.len() - missing);
        self
    }
}

pub struct Server {
    /// `http://127.0.0.1:port`
    pub origin: String,
    pub port: u16,
    requests: Arc<Mutex<Vec<HttpRequest>>>,
}

impl Server {
    /// Answers until the test process ends.
    pub fn start(answer: impl Fn(&HttpRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(vec![]));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&requests));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(connection, &*answer, &seen));
            }
        });
        Self {
            origin: format!("http://127.0.0.1:{port}"),
            port,
            requests,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub fn targets(&self) -> Vec<String> {
        self.requests()
            .into_iter()
            .map(|request| request.target)
            .collect()
    }

    pub fn forget(&self) {
        self.requests.lock().unwrap().clear();
    }
}

fn serve(
    mut connection: TcpStream,
    answer: &dyn Fn(&HttpRequest) -> Reply,
    seen: &Mutex<Vec<HttpRequest>>,
) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        seen.lock().unwrap().push(request.clone());
        let reply = answer(&request);
        if connection.write_all(&reply.bytes).is_err() {
            return;
        }
        match reply.then {
            Then::Stay => {}
            Then::Close => return,
            Then::Reset => {
                rustix::net::sockopt::set_socket_linger(&connection, Some(Duration::ZERO)).unwrap();
                return;
            }
            Then::Silence => {
                let _ = reader.read(&mut [0]);
                return;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<HttpRequest> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = vec![];
    while let Some((name, value)) = line()?.split_once(": ") {
        headers.push((name.to_owned(), value.to_owned()));
    }
    let mut request = HttpRequest {
        method,
        target,
        headers,
        body: vec![],
    };
    let length = request
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
