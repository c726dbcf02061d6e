//! An auth profile's key: fixed, or requested from the host when needed, and cached until it expires or is refused.
//!
//! It must never print a key, call the host twice at the same time, or accept a key that a header cannot hold.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;

use crate::Credential;
use crate::redact::{clip, redact};
use base::clock::Clock;
use model::{AuthType, Failure, FailureKind};

/// A token that expires sooner than this is renewed first.
const MARGIN_MS: i64 = 60_000;
/// The time limit of the host's callback.
const HOST_LIMIT: Duration = Duration::from_secs(60);
/// The maximum characters of a host's error in a message.
const REASON_LENGTH: usize = 300;

/// A key as the host returns it.
#[derive(Clone)]
pub struct HostKey {
    /// The key. An empty one is none.
    pub key: SecretString,
    /// When it expires, in Unix milliseconds; `None` for a key that is valid until it is refused.
    pub expires_at: Option<i64>,
}

impl HostKey {
    /// The key as a text, for a connection that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.key.expose_secret()
    }
}

/// The result of the host's callback; the text of an error is redacted before it is shown.
pub type KeyFuture = Pin<Box<dyn Future<Output = Result<HostKey, String>> + Send>>;

/// A host that has keys. Implemented at the JavaScript boundary.
pub trait KeyHost: Send + Sync {
    /// Requests the key of the profile at `index` of `authProfiles`; `refused`: the last one was refused, with this challenge.
    fn key(&self, index: u32, refused: bool, challenge: Option<&str>) -> KeyFuture;
}

#[derive(Default)]
struct KeyState {
    credential: Option<Arc<Credential>>,
    expires_at: Option<i64>,
    /// The number of attempts with it.
    uses: u32,
    refused: bool,
}

/// A key that the host supplies.
pub(crate) struct Hosted {
    host: Arc<dyn KeyHost>,
    index: u32,
    state: Mutex<KeyState>,
    /// The last key, which stays a secret after it was refused.
    last: RwLock<Option<Arc<Credential>>>,
}

impl Hosted {
    pub(crate) fn new(
        host: Arc<dyn KeyHost>,
        index: u32,
        first: Option<Arc<Credential>>,
        expires_at: Option<i64>,
    ) -> Self {
        let last = RwLock::new(first.clone());
        let state = KeyState { credential: first, expires_at, ..KeyState::default() };
        Self { host, index, state: Mutex::new(state), last }
    }
}

pub(crate) enum KeySource {
    Fixed(RwLock<Option<Arc<Credential>>>),
    Hosted(Hosted),
}

/// An auth profile, and the source of its key.
pub struct KeyProfile {
    /// Its name.
    pub id: String,
    /// The kind of its key.
    pub kind: AuthType,
    pub(crate) source: KeySource,
}

impl fmt::Debug for KeyProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyProfile").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The profiles of one provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderKeys {
    /// In the given order; none for a server without keys.
    pub profiles: Vec<Arc<KeyProfile>>,
    /// Why it cannot be called: it requires a key, and there is none.
    pub missing: Option<Failure>,
}

impl KeyProfile {
    /// A profile with a fixed key.
    #[must_use]
    pub fn fixed(credential: Credential, kind: AuthType) -> Self {
        let id = credential.profile_id.clone();
        Self { id, kind, source: KeySource::Fixed(RwLock::new(Some(Arc::new(credential)))) }
    }

    /// The key that is known without a call of the host.
    pub(crate) fn known(&self) -> Option<Arc<Credential>> {
        let known = match &self.source {
            KeySource::Fixed(credential) => credential,
            KeySource::Hosted(hosted) => &hosted.last,
        };
        known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the key, whose bytes are overwritten, when no attempt can need it any more. A host may hold a closed engine for
    /// long.
    pub fn forget(&self) {
        let known = match &self.source {
            KeySource::Fixed(credential) => credential,
            KeySource::Hosted(hosted) => {
                // Who holds the lock waits for the host, and has no key.
                if let Ok(mut state) = hosted.state.try_lock() {
                    *state = KeyState::default();
                }
                &hosted.last
            }
        };
        known.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The credential of an attempt. The host is called once, however many attempts wait.
    ///
    /// # Errors
    /// `key_callback`: the host failed, or returned no valid key.
    pub async fn credential(&self, clock: &Clock) -> Result<Arc<Credential>, Failure> {
        let hosted = match &self.source {
            KeySource::Fixed(_) => return self.known().ok_or_else(|| self.forgotten()),
            KeySource::Hosted(hosted) => hosted,
        };
        let mut state = hosted.state.lock().await;
        let soon = clock.now_ms().saturating_add(MARGIN_MS);
        let good = state.expires_at.is_none_or(|end| end > soon);
        if let Some(credential) = state.credential.clone().filter(|_| good) {
            state.uses = state.uses.saturating_add(1);
            return Ok(credential);
        }
        let answer = hosted.host.key(hosted.index, state.refused, None);
        let given = match tokio::time::timeout(HOST_LIMIT, answer).await {
            Ok(Ok(given)) => given,
            Ok(Err(why)) => {
                let old = state.credential.as_ref().map(|old| old.secret.expose_secret());
                let why = clip(&redact(&why, old.as_slice()), REASON_LENGTH);
                return Err(self.failed(&format!("failed: {why}")));
            }
            Err(_) => {
                let limit = HOST_LIMIT.as_secs();
                return Err(self.failed(&format!("did not answer within {limit} seconds")));
            }
        };
        let text = given.key.expose_secret().trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(self.failed("returned no key: it is empty, or no header may have it"));
        }
        let credential = Arc::new(Credential {
            profile_id: self.id.clone(),
            secret: text.into(),
            bearer: matches!(self.kind, AuthType::Token | AuthType::Oauth),
            aws: None,
        });
        *hosted.last.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::clone(&credential));
        *state = KeyState {
            credential: Some(Arc::clone(&credential)),
            expires_at: given.expires_at,
            uses: 1,
            refused: false,
        };
        Ok(credential)
    }

    /// Drops a refused key. True where the host may have another: a key that it has just returned is its newest.
    pub async fn renew(&self) -> bool {
        let KeySource::Hosted(hosted) = &self.source else { return false };
        let mut state = hosted.state.lock().await;
        let had = state.credential.take().is_some();
        let given_before = state.uses != 1;
        state.refused = true;
        state.uses = 0;
        had && given_before
    }

    fn forgotten(&self) -> Failure {
        let message = format!("the key of `{}` was dropped when its engine was closed", self.id);
        Failure::new(FailureKind::Auth, "invalid_key", message)
    }

    fn failed(&self, what: &str) -> Failure {
        let message = format!("the key callback of auth profile `{}` {what}", self.id);
        Failure { should_retry: None, ..Failure::new(FailureKind::Auth, "key_callback", message) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Plain;

    use super::*;

    type Answer = Result<(&'static str, Option<i64>), &'static str>;

    /// Its results, and the calls it received.
    struct Script(Plain<Vec<Answer>>, Plain<Vec<bool>>);

    impl KeyHost for Script {
        fn key(&self, _place: u32, refused: bool, _: Option<&str>) -> KeyFuture {
            self.1.lock().unwrap().push(refused);
            let next = self.0.lock().unwrap().remove(0);
            Box::pin(async move {
                tokio::task::yield_now().await;
                let (key, expires_at) = next.map_err(str::to_owned)?;
                Ok(HostKey { key: key.into(), expires_at })
            })
        }
    }

    fn profile(answers: &[Answer]) -> (KeyProfile, Arc<Script>) {
        let host = Arc::new(Script(Plain::new(answers.to_vec()), Plain::default()));
        let hosted = Hosted::new(Arc::clone(&host) as Arc<dyn KeyHost>, 0, None, None);
        let source = KeySource::Hosted(hosted);
        (KeyProfile { id: "p".to_owned(), kind: AuthType::Oauth, source }, host)
    }

    async fn key(profile: &KeyProfile, now: i64) -> Result<String, Failure> {
        let credential = profile.credential(&Clock::fixed(now)).await?;
        assert!(credential.bearer);
        Ok(credential.secret.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn a_key_is_requested_once_and_renewed_a_minute_before_it_expires() {
        let (profile, host) = profile(&[Ok(("k1", Some(200_000))), Ok(("k2", None))]);
        let (one, two) = tokio::join!(key(&profile, 0), key(&profile, 0));
        assert_eq!((one.unwrap(), two.unwrap()), ("k1".to_owned(), "k1".to_owned()));
        assert_eq!(key(&profile, 139_999).await.unwrap(), "k1");
        assert_eq!(key(&profile, 140_000).await.unwrap(), "k2");
        assert_eq!(key(&profile, 10_000_000).await.unwrap(), "k2");
        assert_eq!(*host.1.lock().unwrap(), [false, false]);
    }

    #[tokio::test]
    async fn a_refused_key_is_renewed_unless_it_was_the_newest() {
        let (profile, host) = profile(&[Ok(("k1", None)), Ok(("k2", None))]);
        key(&profile, 0).await.unwrap();
        key(&profile, 0).await.unwrap();
        assert!(profile.renew().await);
        assert_eq!(key(&profile, 0).await.unwrap(), "k2");
        assert!(!profile.renew().await);
        assert_eq!(*host.1.lock().unwrap(), [false, true]);
    }

    #[tokio::test]
    async fn a_callback_that_fails_or_returns_no_key_is_an_auth_failure_without_secrets() {
        let secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
        let (profile, _) = profile(&[Err(secret), Ok(("two words", None))]);
        let failure = key(&profile, 0).await.unwrap_err();
        assert_eq!(
            (failure.kind, failure.code.as_deref()),
            (FailureKind::Auth, Some("key_callback"))
        );
        assert!(!failure.message.contains("abcdefghijk"), "{}", failure.message);
        assert!(!key(&profile, 0).await.unwrap_err().message.contains("two words"));
        assert_eq!(format!("{profile:?}"), r#"KeyProfile { id: "p", .. }"#);
    }
}
