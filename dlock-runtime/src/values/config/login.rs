//! Who dlock logs in as: fixed, or asked for at each connect.
//!
//! It logs in nowhere. Invariant: no output shows a password.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::Config;

/// Text that no output shows.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// A user's name and password for the server: the answer of a
/// [`Config::credentials`](crate::Config::credentials) provider.
///
/// # Examples
///
/// ```
/// use dlock_runtime::Credentials;
///
/// let token = Credentials::new("dlock", "a-token-of-15-minutes");
/// assert!(!format!("{token:?}").contains("a-token"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

impl Credentials {
    /// Makes the credentials of an ACL user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: Some(user.into()),
            password: Some(Secret::new(password)),
        }
    }

    /// Makes credentials of a password alone, for a server with `requirepass`.
    pub fn password(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: Some(Secret::new(password)),
        }
    }

    pub(crate) fn are_given(&self) -> bool {
        self.user.is_some() || self.password.is_some()
    }
}

/// Why a provider had no answer.
type ProviderError = Box<dyn Error + Send + Sync>;

type LoginFuture = Pin<Box<dyn Future<Output = Result<Credentials, ProviderError>> + Send>>;

/// Where a connection's credentials come from.
#[derive(Clone)]
pub(crate) enum Login {
    Fixed(Credentials),
    Asked(Arc<dyn Fn() -> LoginFuture + Send + Sync>),
}

impl Login {
    pub(super) fn asked<F, E>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<ProviderError>,
    {
        Login::Asked(Arc::new(move || {
            let answer = ask();
            Box::pin(async move { answer.await.map_err(Into::into) })
        }))
    }

    /// The credentials for one connection. An error's text is the provider's own.
    pub(crate) async fn credentials(&self) -> Result<Credentials, ProviderError> {
        match self {
            Login::Fixed(credentials) => Ok(credentials.clone()),
            Login::Asked(ask) => ask().await,
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        matches!(self, Login::Asked(_))
    }

    /// The password that all programs with this configuration have in common, if it is fixed.
    pub(crate) fn fixed_password(&self) -> Option<&Secret> {
        match self {
            Login::Fixed(credentials) => credentials.password.as_ref(),
            Login::Asked(_) => None,
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Login::Fixed(credentials) => credentials.fmt(f),
            Login::Asked(_) => f.write_str("<asked at each connect>"),
        }
    }
}

impl Config {
    /// Asks `provider` for the credentials at each connect, for passwords that change: tokens of a
    /// cloud's IAM, a secret that a vault rotates. The URL must then have none.
    ///
    /// The provider must answer within [`connect_timeout`](Self::connect_timeout), which also
    /// covers the rest of connecting. If it fails, or the server rejects the credentials, dlock
    /// tries again about once a second, as if the server could not be reached. The text of the
    /// provider's error appears in errors and in the log, so it must not contain a secret. An open
    /// connection stays open when its credentials expire, unless the server closes it; the next
    /// connection then calls the provider again. The provider is called on each tokio runtime that
    /// connects, including that of dlock's watchdog: it must not depend on a particular runtime,
    /// and **must not block**, or no lease is renewed meanwhile. Set
    /// [`grant_secret`](Self::grant_secret) too, because there is no common password to derive it
    /// from.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, Credentials, LockPool};
    ///
    /// async fn token() -> Result<String, std::io::Error> {
    ///     Ok("of 15 minutes".to_owned()) // ask your cloud or your vault here
    /// }
    ///
    /// let config = Config::new("redis://redis.internal")
    ///     .credentials(|| async { Ok::<_, std::io::Error>(Credentials::new("dlock", token().await?)) })
    ///     .grant_secret("32 random bytes, in each program")
    ///     .lazy();
    /// let pool = LockPool::connect(config).await?;
    ///
    /// let twice = Config::new("redis://:secret@redis.internal").credentials(|| async {
    ///     Ok::<_, std::io::Error>(Credentials::password("another"))
    /// });
    /// assert!(LockPool::connect(twice).await.unwrap_err().to_string().contains("credentials"));
    /// # drop(pool); Ok(()) }
    /// ```
    pub fn credentials<F, E>(mut self, provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.login = Some(Login::asked(provider));
        self
    }
}
