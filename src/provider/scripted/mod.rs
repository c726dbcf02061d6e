//! The scripted provider: answers as a script says, for tests and demos. It must never reach the network.
