//! actix-web handlers in a real server, called over TCP: with the attribute above and below
//! `#[get]`, with every kind of return type, in several workers.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread::ThreadId;

use actix_web::http::StatusCode;
use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer, Responder, ResponseError, get, post, web,
};
use dlock_runtime::{LockError, LockPool, distributed_lock, lock_key};
use serde::{Deserialize, Serialize};

use crate::http;
use crate::{held, memory};

struct Shop {
    name: &'static str,
    locks: LockPool,
}

#[derive(Deserialize, Serialize)]
struct Order {
    user: u32,
    item: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ShopError(#[from] LockError);

impl ResponseError for ShopError {
    fn status_code(&self) -> StatusCode {
        if self.0.is_busy() {
            StatusCode::CONFLICT
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }

    fn error_response(&self) -> HttpResponse {
        let key = self.0.key().map(ToString::to_string).unwrap_or_default();
        HttpResponse::build(self.status_code()).body(key)
    }
}

#[get("/above/{id}")]
#[distributed_lock(key = "above:<id>", wait = "0s", pool = shop.locks)]
async fn above(id: web::Path<u64>, shop: web::Data<Shop>) -> Result<String, ShopError> {
    tokio::task::yield_now().await;
    Ok([shop.name, &held()].join(" "))
}

#[distributed_lock(key = "below:<path.0>:<path.1>", wait = "0s", pool = shop.locks)]
#[get("/below/{id}/{name}")]
async fn below(
    path: web::Path<(u64, String)>,
    shop: web::Data<Shop>,
) -> Result<impl Responder, ShopError> {
    Ok(held().customize().with_status(StatusCode::CREATED))
}

#[post("/order")]
#[distributed_lock(
    key = "order:<order.user>:<order.item>",
    wait = "0s",
    pool = shop.locks,
    map_err = actix_web::error::ErrorConflict
)]
async fn order(
    web::Json(order): web::Json<Order>,
    shop: web::Data<Shop>,
) -> actix_web::Result<web::Json<Order>> {
    let item = [&order.item, " ", &held()].concat();
    Ok(web::Json(Order { item, ..order }))
}

#[distributed_lock(
    key = {
        let id = request.match_info().query("id");
        lock_key!("<request.method()> <id>")
    },
    wait = "0s",
    pool = request.app_data::<web::Data<Shop>>().unwrap().locks,
    on_error = |error| ShopError(error).error_response()
)]
async fn by_route(request: HttpRequest, body: web::Bytes) -> HttpResponse {
    HttpResponse::Accepted().body(format!("{} {}", body.len(), held()))
}

#[distributed_lock(
    key = "responder",
    wait = "0s",
    pool = shop.locks,
    on_error = |error| if error.is_busy() { "busy".to_owned() } else { error.to_string() }
)]
async fn responder(shop: web::Data<Shop>) -> impl Responder {
    held()
}

/// The threads that ran a body.
type Threads = Mutex<Vec<ThreadId>>;

/// actix's workers have a runtime each; one pool serves all of them.
#[distributed_lock(key = "workers", wait = "60s", pool = shop.locks)]
async fn workers(shop: web::Data<Shop>, threads: web::Data<Threads>) -> Result<String, ShopError> {
    let before = threads.lock().unwrap().len();
    tokio::task::yield_now().await;
    let mut threads = threads.lock().unwrap();
    assert_eq!(threads.len(), before, "two at once");
    threads.push(std::thread::current().id());
    Ok(held())
}

struct Server {
    address: SocketAddr,
    handle: actix_web::dev::ServerHandle,
    threads: web::Data<Threads>,
}

/// Serves with two workers.
fn serve(locks: LockPool) -> Server {
    let shop = web::Data::new(Shop { name: "eu", locks });
    let threads = web::Data::new(Threads::default());
    let seen = threads.clone();
    let app = move || {
        App::new()
            .app_data(shop.clone())
            .app_data(seen.clone())
            .service((above, below, order))
            .route("/route/{id}", web::put().to(by_route))
            .route("/responder", web::get().to(responder))
            .route("/workers", web::get().to(workers))
    };
    let server = HttpServer::new(app).workers(2).disable_signals();
    let server = server.bind("127.0.0.1:0").unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Server {
        address,
        handle,
        threads,
    }
}

const ROWS: &str = r#"
GET /above/7 | 200 eu above:7 | above:7 | 409 above:7
GET /above/8 | 200 eu above:8 | above:8 | 409 above:8
GET /below/7/a%20b | 201 below:7:a%20b | below:7:a%20b | 409 below:7:a%20b
POST /order {"user":7,"item":"a b"} | 200 {"user":7,"item":"a b order:7:a%20b"} | order:7:a%20b | 409 *
PUT /route/7 four | 202 4 PUT 7 | PUT 7 | 409 PUT 7
GET /responder | 200 responder | responder | 200 busy
"#;

#[actix_web::test]
async fn each_handler_locks_what_its_request_names() {
    let pool = memory().await;
    let server = serve(pool.clone());
    http::check_rows(ROWS, server.address, &pool).await;
    server.handle.stop(true).await;
}

#[actix_web::test]
async fn workers_share_the_lock() {
    let server = serve(memory().await);
    let both = || {
        let threads = server.threads.lock().unwrap();
        threads.iter().any(|thread| *thread != threads[0])
    };
    // Workers get connections in turn, but the server decides how soon the second one gets any.
    for _ in 0..100 {
        let calls = (0..6).map(|_| http::ask(server.address, "GET /workers"));
        for response in futures_util::future::join_all(calls).await {
            http::check(&response, "200 workers");
        }
        if both() {
            break;
        }
    }
    assert!(both(), "one worker had all requests");
    server.handle.stop(true).await;
}
