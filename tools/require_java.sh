#!/usr/bin/env bash
# Exit 0 when Spark finds a Java that it runs on, else say in one sentence what to do.
set -u

advice="install a JDK (Debian and Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at one, then run make again."
java=java
if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
fi
if ! command -v "$java" >/dev/null 2>&1; then
    echo "bayou: Spark needs Java 17 or newer, and there is no '$java': $advice" >&2
    exit 1
fi
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
if [ "${version:-0}" -lt 17 ]; then
    echo "bayou: Spark needs Java 17 or newer, '$java' is version ${version:-unknown}: $advice" >&2
    exit 1
fi
