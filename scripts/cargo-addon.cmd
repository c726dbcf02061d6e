@echo off
rem The same as cargo-addon, for Windows.
if "%1"=="build" (
  shift
  cargo rustc --lib --crate-type cdylib %2 %3 %4 %5 %6 %7 %8 %9
) else (
  cargo %*
)
