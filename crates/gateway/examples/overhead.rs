//! What the gateway adds to a search or an embedding: the same SQL through tokio-postgres and
//! through HTTP, in turns.
//!
//! Arguments: `search` or `embeddings`, address of the gateway, a key, a connection string, number
//! of requests, and number of clients at a time. Prints medians and 99th percentiles in
//! milliseconds, as JSON.

use std::time::Instant;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_postgres::NoTls;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A request, and the function that answers it.
#[derive(Clone, Copy)]
struct Call {
    path: &'static str,
    body: &'static str,
    statement: &'static str,
}

/// A search by words alone takes no time of the model.
const SEARCH: Call = Call {
    path: "/v1/search",
    body: r#"{"query": "keys", "mode": "keyword", "top_k": 5}"#,
    statement: "SELECT rag_api.search($1::text::jsonb)::text",
};
/// An embedding that is in the cache takes no time of the model.
const EMBEDDINGS: Call = Call {
    path: "/v1/embeddings",
    body: r#"{"input": "how do I rotate the signing keys?", "model": "rag"}"#,
    statement: "SELECT rag_api.embeddings($1::text::jsonb)::text",
};
const ROUNDS: usize = 10;

async fn over_sql(
    client: &tokio_postgres::Client,
    call: Call,
    number: usize,
) -> Result<Vec<f64>, Failed> {
    let statement = client.prepare(call.statement).await?;
    let mut times = vec![];
    for _ in 0..number {
        let began = Instant::now();
        client.query_one(&statement, &[&call.body]).await?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}

async fn over_http(
    address: &str,
    key: &str,
    call: Call,
    number: usize,
) -> Result<Vec<f64>, Failed> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        call.path,
        call.body.len(),
        call.body
    );
    let mut times = vec![];
    for _ in 0..number {
        let began = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let (mut line, mut length) = (String::new(), 0);
        stream.read_line(&mut line).await?;
        if !line.starts_with("HTTP/1.1 200") {
            return Err(format!("the gateway answered {line}").into());
        }
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
        }
        stream.read_exact(&mut vec![0; length]).await?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(times)
}

async fn joined(
    runs: Vec<tokio::task::JoinHandle<Result<Vec<f64>, Failed>>>,
) -> Result<Vec<f64>, Failed> {
    let mut all = vec![];
    for run in runs {
        all.extend(run.await??);
    }
    Ok(all)
}

fn percentile(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * share) as usize]
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, address, key, connection, number, clients] = arguments.as_slice() else {
        return Err(
            "arguments: search or embeddings, address, key, connection, requests, clients".into(),
        );
    };
    let (number, clients): (usize, usize) = (number.parse()?, clients.parse()?);
    let call = if what == "embeddings" {
        EMBEDDINGS
    } else {
        SEARCH
    };
    let a_round = number / ROUNDS;
    let (mut sql, mut http, mut seconds) = (vec![], vec![], 0.0);
    for round in 0..=ROUNDS {
        let mut runs = vec![];
        for _ in 0..clients {
            let connection = connection.clone();
            runs.push(tokio::spawn(async move {
                let (client, driver) = tokio_postgres::connect(&connection, NoTls).await?;
                tokio::spawn(driver);
                over_sql(&client, call, a_round).await
            }));
        }
        let of_sql = joined(runs).await?;
        let began = Instant::now();
        let mut runs = vec![];
        for _ in 0..clients {
            let (address, key) = (address.clone(), key.clone());
            runs.push(tokio::spawn(async move {
                over_http(&address, &key, call, a_round).await
            }));
        }
        let of_http = joined(runs).await?;
        // the first round is to warm up
        if round > 0 {
            seconds += began.elapsed().as_secs_f64();
            sql.extend(of_sql);
            http.extend(of_http);
        }
    }
    println!(
        "{{\"sql_p50\": {:.3}, \"sql_p99\": {:.3}, \"http_p50\": {:.3}, \"http_p99\": {:.3}, \
         \"http_a_second\": {:.0}}}",
        percentile(&mut sql, 0.5),
        percentile(&mut sql, 0.99),
        percentile(&mut http, 0.5),
        percentile(&mut http, 0.99),
        http.len() as f64 / seconds,
    );
    Ok(())
}
