//! A shop that listens, a bank that answers when it is told to, and a buyer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use dlock_harness::wait::scaled;
use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockPool};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::app::{self, Shop};
use crate::store::Store;

/// For what takes milliseconds on an idle machine, and far less than a ttl here.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// More than any request takes.
pub(crate) const CAP: Duration = Duration::from_secs(20);

/// No answer may contain it.
pub(crate) const SECRET_HOST: &str = "secret-host-of-the-holder";

/// A bank. It is open at first; while it is closed, it answers no request.
#[derive(Clone)]
pub(crate) struct Bank {
    address: SocketAddr,
    books: Arc<Books>,
}

struct Books {
    open: watch::Sender<bool>,
    /// The references that wait for an answer, and all that were asked.
    inside: watch::Sender<Vec<String>>,
    asked: watch::Sender<Vec<String>>,
}

#[derive(Deserialize)]
struct Payment {
    reference: String,
    buyer: String,
    cents: u64,
}

impl Bank {
    pub(crate) async fn start() -> Self {
        let books = Arc::new(Books {
            open: watch::Sender::new(true),
            inside: watch::Sender::default(),
            asked: watch::Sender::default(),
        });
        let routes = Router::new()
            .route("/", post(answer))
            .with_state(books.clone());
        let address = listen(routes).await;
        Self { address, books }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn close(&self) {
        self.books.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.books.open.send_replace(true);
    }

    /// All references that it was ever asked about, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.books.asked.borrow().clone()
    }

    /// Waits until this many requests wait for its answer: that many handlers hold their locks.
    pub(crate) async fn until_inside(&self, count: usize) {
        let what = format!("{count} requests wait for the bank");
        until(&what, SOON, async || {
            self.books.inside.borrow().len() == count
        })
        .await;
    }
}

/// Removes the reference also when the shop hangs up, because hyper then drops the future.
struct Inside(Arc<Books>, String);

impl Drop for Inside {
    fn drop(&mut self) {
        let Self(books, reference) = self;
        books.inside.send_modify(|inside| {
            let place = inside.iter().position(|other| other == reference);
            place.map(|place| inside.remove(place));
        });
    }
}

async fn answer(
    State(books): State<Arc<Books>>,
    axum::Json(payment): axum::Json<Payment>,
) -> StatusCode {
    let Payment {
        reference,
        buyer,
        cents,
    } = payment;
    assert!(cents > 0);
    books
        .asked
        .send_modify(|asked| asked.push(reference.clone()));
    books
        .inside
        .send_modify(|inside| inside.push(reference.clone()));
    let _inside = Inside(books.clone(), reference);
    let opened = books.open.subscribe().wait_for(|open| *open).await.is_ok();
    assert!(opened, "its sender is in the books");
    match buyer.as_str() {
        "poor" => StatusCode::PAYMENT_REQUIRED,
        "unlucky" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::OK,
    }
}

/// The example's routes, on a port of this process.
pub(crate) struct Lab {
    pub(crate) address: SocketAddr,
    pub(crate) bank: Bank,
    pub(crate) locks: LockPool,
    /// How many requests have come in.
    arrived: watch::Receiver<usize>,
    pub(crate) client: reqwest::Client,
}

impl Lab {
    pub(crate) async fn in_memory() -> Self {
        Self::start("memory://", Duration::from_secs(60)).await
    }

    pub(crate) async fn on(redis: &RedisServer) -> Self {
        Self::start(&redis.url(), Duration::from_secs(60)).await
    }

    pub(crate) async fn start(url: &str, deadline: Duration) -> Self {
        crate::log::listen();
        let config = Config::new(url).holder_name(SECRET_HOST);
        let locks = LockPool::connect(config).await.unwrap();
        let (bank, store) = (Bank::start().await, Store::default());
        store.stock(7, 1999, 3);
        store.stock(8, 499, 100);
        store.stock(9, 999, 1);
        let shop = Shop {
            store: Arc::new(store),
            bank: Arc::new(crate::bank::Bank::new(Some(bank.url()))),
            locks: locks.clone(),
            deadline,
        };
        let (count, arrived) = watch::channel(0);
        let (count, scoped) = (Arc::new(count), locks.clone());
        // In `main` the pool is the global one, of which a process has only one; here each test has
        // its own.
        let in_scope = from_fn(move |request: Request, next: Next| {
            let pool = scoped.clone();
            count.send_modify(|count| *count += 1);
            async move { pool.scope(next.run(request)).await }
        });
        Self {
            address: listen(app::app(shop).layer(in_scope)).await,
            bank,
            locks,
            arrived,
            client: client(),
        }
    }

    pub(crate) async fn until_arrived(&self, count: usize) {
        let what = format!("{count} requests have arrived");
        until(&what, SOON, async || *self.arrived.borrow() >= count).await;
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let url = format!("http://{}{path}", self.address);
        Answer::of(self.client.get(url)).await
    }

    /// Buys an item, with an order named after the buyer.
    pub(crate) async fn buy(&self, item: u64, buyer: &str) -> Answer {
        self.post(&format!("/items/{item}/purchases"), &order(buyer))
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        let request = self.client.post(format!("http://{}{path}", self.address));
        let json = ("content-type", "application/json");
        Answer::of(request.header(json.0, json.1).body(body.to_owned())).await
    }

    pub(crate) async fn left(&self, item: u64) -> u64 {
        let item = self.get(&format!("/items/{item}")).await;
        item.fields().left.expect("an item")
    }

    /// Buys with a client that can be dropped, and its connection with it.
    pub(crate) async fn buy_and_may_leave(&self, item: u64, buyer: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let body = order(buyer);
        let head = format!(
            "POST /items/{item}/purchases HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        stream
    }
}

pub(crate) fn order(buyer: &str) -> String {
    format!(r#"{{"id":"order-of-{buyer}","buyer":"{buyer}"}}"#)
}

/// A client that gives up on an answer that never comes, so that a test fails by name.
pub(crate) fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().timeout(scaled(CAP));
    client.build().unwrap()
}

/// The fields that an answer's JSON may have.
#[derive(Deserialize)]
pub(crate) struct Fields {
    error: Option<String>,
    message: Option<String>,
    left: Option<u64>,
    pub(crate) buyer: Option<String>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    pub(crate) text: String,
    headers: String,
}

impl Answer {
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let header = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        Self {
            status: response.status().as_u16(),
            retry_after: header("retry-after").map(|seconds| seconds.parse().unwrap()),
            headers: format!("{:?}", response.headers()),
            text: response.text().await.expect("a whole body"),
        }
    }

    pub(crate) fn fields(&self) -> Fields {
        let fields = axum::Json::from_bytes(self.text.as_bytes());
        fields.unwrap_or_else(|why| panic!("{why}: {self:?}")).0
    }

    /// Checks that it is a failure in the shape that all failures have, and reveals nothing
    /// internal.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, word: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let Fields { error, message, .. } = self.fields();
        assert_eq!(error.as_deref(), Some(word), "{self:?}");
        assert!(message.is_some(), "{self:?}");
        for inside in [SECRET_HOST, "4711", "redis", "lock", "127.0.0.1"] {
            let told = self.text.contains(inside) || self.headers.contains(inside);
            assert!(!told, "tells {inside:?}: {self:?}");
        }
    }
}

async fn listen(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}
