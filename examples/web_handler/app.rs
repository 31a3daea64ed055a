//! The routes and their handlers. The attribute is on the handlers; no other code here knows of
//! locks.
//!
//! Each handler reads first, then asks the bank, then writes everything at once. A client that
//! disconnects, a deadline or a lost lease drops the handler at an `await`, before that write or
//! after it, so no sale is ever half done. A client that got no answer sends the same order again.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use dlock_runtime::{LockPool, distributed_lock};
use tracing::Instrument as _;

use crate::bank::{Bank, Payment};
use crate::error::ShopError;
use crate::extract::{Json, Path};
use crate::store::{Item, Order, Receipt, Store};

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) store: Arc<Store>,
    pub(crate) bank: Arc<Bank>,
    /// For the health route only: the attribute finds the pool by itself.
    pub(crate) locks: LockPool,
    /// How long a request may take, with the wait for its lock.
    pub(crate) deadline: Duration,
}

pub(crate) fn app(shop: Shop) -> Router {
    Router::new()
        .route("/items/{id}", get(item))
        .route("/items/{id}/purchases", post(purchase))
        .route("/buyers/{name}/welcome-bonus", post(welcome_bonus))
        .layer(from_fn_with_state(shop.deadline, within))
        .route("/health/live", get(async || "alive"))
        .route("/health/ready", get(ready))
        .fallback(async || ShopError::nothing_here(StatusCode::NOT_FOUND))
        .method_not_allowed_fallback(async || {
            ShopError::nothing_here(StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(from_fn(traced))
        .with_state(shop)
}

/// Reading needs no lock: the answer may be outdated when it arrives anyway.
async fn item(State(shop): State<Shop>, Path(id): Path<u64>) -> Result<Json<Item>, ShopError> {
    Ok(Json(shop.store.item(id)?))
}

/// Serves one buyer of an item at a time, on all instances, so that no money is reserved for an
/// item that is sold out by then.
///
/// `wait`: long enough for one or two buyers before this one, short enough for a person who looks
/// at a spinner. `renew`: the bank may take longer than the ttl; the request's deadline bounds it.
#[distributed_lock(key = "item:<id>", ttl = "10s", wait = "2s", renew, guard = lock)]
async fn purchase(
    State(shop): State<Shop>,
    Path(id): Path<u64>,
    Json(order): Json<Order>,
) -> Result<Json<Receipt>, ShopError> {
    if let Some(receipt) = shop.store.receipt(id, &order)? {
        return Ok(Json(receipt)); // a repeated order, because the first answer did not arrive
    }
    let item = shop.store.item(id)?;
    if item.left == 0 {
        return Err(ShopError::SoldOut);
    }
    let payment = Payment {
        reference: &format!("order:{}", order.id),
        buyer: &order.buyer,
        cents: item.cents,
    };
    shop.bank.ask(&payment).await?;
    Ok(Json(shop.store.sell(id, &order, lock.fence())?))
}

/// Serves one request of a buyer at a time. The second click of a double click is refused at once
/// and does not wait in a queue.
#[distributed_lock(key = "buyer:<name>", ttl = "10s", wait = "0s", renew)]
async fn welcome_bonus(
    State(shop): State<Shop>,
    Path(name): Path<String>,
) -> Result<&'static str, ShopError> {
    if shop.store.bonus_was_paid(&name) {
        return Err(ShopError::BonusPaid);
    }
    // If the handler is dropped between the payment and the record, a repeated request asks the
    // bank again with the same reference.
    let payment = Payment {
        reference: &format!("welcome:{name}"),
        buyer: &name,
        cents: 500,
    };
    shop.bank.ask(&payment).await?;
    shop.store.record_bonus(&name);
    Ok("paid")
}

/// For the load balancer: an instance that can't take locks can't sell. Don't use it for
/// *liveness*, since no restart of this process brings Redis back.
async fn ready(State(shop): State<Shop>) -> Result<String, ShopError> {
    let took = shop.locks.ping().await?;
    Ok(format!("ready; a lock can be asked for in {took:.1?}"))
}

/// Drops a request that takes too long, as if its client had disconnected; its lock is released.
async fn within(State(deadline): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ShopError::TooSlow.into_response(),
    }
}

/// Adds the request to each line of the log, also to dlock's own.
async fn traced(request: Request, next: Next) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let span = tracing::info_span!("request", %method, path);
    next.run(request).instrument(span).await
}
