//! What the memory of the process still has of a key when everything that had it is dropped: `/proc/self/mem` is searched. Only
//! the buffer in which the HTTP library wrote the request's head may have it: nobody else can overwrite that.
//!
//! It must never hold a key in a form that the search itself would find.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileExt as _;

use secrecy::SecretString;
use secrecy::zeroize::{Zeroize as _, Zeroizing};
use serde_json::value::RawValue;

use super::server::{Captured, Lines, WHOLE, completion, request, unbounded};
use crate::http::{HttpClient, HttpProvider};
use crate::redact::{KnownKeys, forms_of};
use crate::{Api, Provider as _, ProviderSettings, parse_providers};
use base::clock::Clock;
use base::config::Environment;

const MASK: u8 = 0x80;
const LENGTH: usize = 48;
const CHUNK: usize = 1 << 16;
/// What follows the key in the head of a request.
const END: &[u8] = b"\r\n";

/// A text that the memory has only behind a mask.
struct Masked(Vec<u8>);

impl Masked {
    /// A key that no other test has.
    fn random() -> Self {
        let letter = || b'a' + u8::try_from(RandomState::new().hash_one(0) % 26).unwrap();
        Self((0..LENGTH).map(|_| letter() ^ MASK).collect())
    }

    fn of(text: &str) -> Self {
        Self(text.bytes().map(|byte| byte ^ MASK).collect())
    }

    fn append_to(&self, text: &mut String) {
        for byte in &self.0 {
            text.push(char::from(byte ^ MASK));
        }
    }

    fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(self.0.len()));
        self.append_to(&mut text);
        text
    }

    /// How often it is in the memory that this process can write, apart from heads of requests.
    fn count(&self) -> usize {
        let memory = File::open("/proc/self/mem").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut chunk = Zeroizing::new(vec![0_u8; CHUNK]);
        let (mut count, length) = (0, self.0.len() + END.len());
        for line in maps.lines().filter(|line| line.split(' ').nth(1).unwrap().starts_with("rw")) {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [mut at, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
            while at < end {
                // What has been unmapped meanwhile has nothing.
                let read = memory.read_at(&mut chunk, at).unwrap_or(0);
                let read = read.min(usize::try_from(end - at).unwrap());
                let found = chunk[..read].windows(length).filter(|window| {
                    let (text, end) = window.split_at(self.0.len());
                    end != END && text.iter().zip(&self.0).all(|(byte, it)| byte ^ MASK == *it)
                });
                count += found.count();
                chunk.as_mut_slice().zeroize();
                if read < length {
                    break;
                }
                at += u64::try_from(read - length + 1).unwrap();
            }
        }
        count
    }
}

/// Answers one request per connection, and forgets what it read.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map(Result::unwrap) {
            let mut head = Zeroizing::new([0_u8; 8_192]);
            assert!(socket.read(head.as_mut_slice()).unwrap() > LENGTH);
            socket.write_all(unbounded(WHOLE).as_bytes()).unwrap();
        }
    });
    address
}

/// Options, and one attempt with the key in them.
async fn call(address: SocketAddr, key: &Masked) {
    let mut profiles = Zeroizing::new(String::with_capacity(1_000));
    profiles.push_str(r#"[{"id":"p","provider":"test","type":"token","key":""#);
    key.append_to(&mut profiles);
    profiles.push_str(r#""}]"#);
    let providers = format!(r#"{{"test":{{"api":"openai-chat","baseUrl":"http://{address}"}}}}"#);
    let providers: &RawValue = serde_json::from_str(&providers).unwrap();
    let profiles: &RawValue = serde_json::from_str(&profiles).unwrap();
    let mut set =
        parse_providers(Some(providers), Some(profiles), &Environment::fixed([])).unwrap();
    let keys = set.keys("test");
    let Some(ProviderSettings::Http { settings, .. }) = set.providers.remove("test") else {
        panic!("an HTTP provider")
    };
    let clock = Clock::default();
    let wire = Box::new(Lines(Api::OpenaiChat));
    let provider = HttpProvider::new(wire, *settings, HttpClient::new(), clock.clone());
    let profile = &keys.profiles[0];
    let credential = profile.credential(&clock).await.unwrap();
    let mut sink = Captured::default();
    let outcome = provider.stream(&request(), Some(&credential), &mut sink).await;
    assert_eq!(outcome, Ok(completion()));
    assert_eq!(KnownKeys::of([&**profile]).clean("a text"), "a text");
    assert!(key.count() > 0, "a key in use is found");
}

#[test]
fn a_key_is_gone_from_memory_when_everything_that_had_it_is_dropped() {
    let (key, control) = (Masked::random(), Masked::random());
    let kept = SecretString::from(control.text().as_str());
    let forms: Vec<Masked> = forms_of(&key.text()).iter().map(|form| Masked::of(form)).collect();
    let address = server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(call(address, &key));
    drop(runtime);
    let left: Vec<usize> = forms.iter().map(Masked::count).collect();
    assert_eq!(left, vec![0; forms.len()]);
    assert_eq!(control.count(), 1, "a key that is kept is found");
    drop(kept);
    assert_eq!(control.count(), 0);
}
