"""Settings of object stores: `connector.storage` and its sections `azure` and `google`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from bayou.ingest.config.base_section import Section, in_clear, property_text


class AzureStorageConfig(Section):
    """Azure Storage: `abfss://` and `az://`. If no credential is set, managed identity is used."""

    account_name: str | None = Field(
        default=None,
        description="Storage account. Environment: AZURE_STORAGE_ACCOUNT_NAME. Default: the "
        "account in an abfss:// URI.",
    )
    account_key: SecretStr | None = Field(
        default=None, description="Key of the account. Environment: AZURE_STORAGE_ACCOUNT_KEY."
    )
    sas_token: SecretStr | None = Field(
        default=None,
        description="Shared access signature. Environment: AZURE_STORAGE_SAS_TOKEN.",
    )
    tenant_id: str | None = Field(
        default=None,
        description="Tenant of a service principal or workload identity. "
        "Environment: AZURE_TENANT_ID.",
    )
    client_id: str | None = Field(
        default=None,
        description="Client id of a service principal, a workload identity or a user-assigned "
        "managed identity. Environment: AZURE_CLIENT_ID.",
    )
    client_secret: SecretStr | None = Field(
        default=None, description="Secret of a service principal. Environment: AZURE_CLIENT_SECRET."
    )
    federated_token_file: str | None = Field(
        default=None,
        description="File with the token of a workload identity, as on Kubernetes. "
        "Environment: AZURE_FEDERATED_TOKEN_FILE.",
    )
    use_azure_cli: bool | None = Field(
        default=None, description="Use the login of the Azure CLI (az login)."
    )
    authority_host: str | None = Field(
        default=None, description="URL of Microsoft Entra ID outside Azure's public cloud."
    )
    endpoint: str | None = Field(
        default=None,
        description="URL of the account's Blob service. Default: its URL in Azure's public cloud.",
    )

    @model_validator(mode="after")
    def _one_credential(self) -> AzureStorageConfig:
        _check_single_credential(
            {
                "account-key": self.account_key,
                "sas-token": self.sas_token,
                "client-secret": self.client_secret,
                "federated-token-file": self.federated_token_file,
                "use-azure-cli": self.use_azure_cli or None,
            }
        )
        for key, value in (
            ("client-secret", self.client_secret),
            ("federated-token-file", self.federated_token_file),
        ):
            if value is not None and not (self.client_id and self.tenant_id):
                raise ValueError(f"{key} needs client-id and tenant-id")
        return self

    def storage_options(self) -> dict[str, str]:
        return _set_values(
            {
                "AZURE_STORAGE_ACCOUNT_NAME": self.account_name,
                "AZURE_STORAGE_ACCOUNT_KEY": in_clear(self.account_key),
                "AZURE_STORAGE_SAS_TOKEN": in_clear(self.sas_token),
                "AZURE_TENANT_ID": self.tenant_id,
                "AZURE_CLIENT_ID": self.client_id,
                "AZURE_CLIENT_SECRET": in_clear(self.client_secret),
                "AZURE_FEDERATED_TOKEN_FILE": self.federated_token_file,
                "AZURE_USE_AZURE_CLI": self.use_azure_cli,
                "AZURE_AUTHORITY_HOST": self.authority_host,
                "AZURE_ENDPOINT": self.endpoint,
            }
        )


class GoogleStorageConfig(Section):
    """Google Cloud Storage: `gs://`. Default credentials: the machine's service account."""

    service_account_file: str | None = Field(
        default=None,
        description="File with the JSON key of a service account. "
        "Environment: GOOGLE_SERVICE_ACCOUNT.",
    )
    service_account_key: SecretStr | None = Field(
        default=None,
        description="The JSON key of a service account. Environment: GOOGLE_SERVICE_ACCOUNT_KEY.",
    )
    application_credentials: str | None = Field(
        default=None,
        description="File with application default credentials. "
        "Environment: GOOGLE_APPLICATION_CREDENTIALS.",
    )
    bearer_token: SecretStr | None = Field(
        default=None, description="An OAuth token. It isn't renewed when it expires."
    )
    endpoint: str | None = Field(
        default=None,
        description="URL of the store. Default: Google's URL.",
    )

    @model_validator(mode="after")
    def _one_credential(self) -> GoogleStorageConfig:
        _check_single_credential(
            {
                "service-account-file": self.service_account_file,
                "service-account-key": self.service_account_key,
                "application-credentials": self.application_credentials,
                "bearer-token": self.bearer_token,
            }
        )
        return self

    def storage_options(self) -> dict[str, str]:
        return _set_values(
            {
                "GOOGLE_SERVICE_ACCOUNT": self.service_account_file,
                "GOOGLE_SERVICE_ACCOUNT_KEY": in_clear(self.service_account_key),
                "GOOGLE_APPLICATION_CREDENTIALS": self.application_credentials,
                "GOOGLE_BEARER_TOKEN": in_clear(self.bearer_token),
                "GOOGLE_BASE_URL": self.endpoint,
            }
        )


class StorageConfig(Section):
    """Settings of S3, and the sections azure and google. Unset keys come from the environment."""

    endpoint: str | None = Field(
        default=None, description="URL of an S3 server. Environment: AWS_ENDPOINT_URL."
    )
    region: str | None = Field(default=None, description="Region. Environment: AWS_REGION.")
    access_key: SecretStr | None = Field(
        default=None, description="Access key. Environment: AWS_ACCESS_KEY_ID."
    )
    secret_key: SecretStr | None = Field(
        default=None, description="Secret key. Environment: AWS_SECRET_ACCESS_KEY."
    )
    session_token: SecretStr | None = Field(
        default=None, description="Session token. Environment: AWS_SESSION_TOKEN."
    )
    role_arn: str | None = Field(
        default=None,
        description="ARN of the role that is assumed with web-identity-token-file or the access "
        "key. Environment: AWS_ROLE_ARN.",
    )
    web_identity_token_file: str | None = Field(
        default=None,
        description="File with the token with which role-arn is assumed, as on Kubernetes. "
        "Environment: AWS_WEB_IDENTITY_TOKEN_FILE.",
    )
    role_session_name: str | None = Field(
        default=None,
        description="Session name of the assumed role. Environment: AWS_ROLE_SESSION_NAME.",
    )
    sts_endpoint: str | None = Field(
        default=None,
        description="URL of the STS that assumes role-arn. Environment: AWS_ENDPOINT_URL_STS.",
    )
    path_style_access: bool | None = Field(
        default=None,
        description="true: URLs have the bucket in the path. false: in the host name.",
    )
    allow_http: bool | None = Field(
        default=None, description="Allow http:// endpoints. Environment: AWS_ALLOW_HTTP."
    )
    encryption: Literal["AES256", "aws:kms", "aws:kms:dsse"] | None = Field(
        default=None,
        description="Server-side encryption of new objects. Default: the bucket's encryption.",
    )
    kms_key_id: str | None = Field(
        default=None, description="KMS key for encryption. Default: AWS's managed key for S3."
    )
    bucket_key: bool | None = Field(
        default=None,
        description="Whether KMS encryption uses an S3 Bucket Key, which reduces KMS requests.",
    )
    azure: AzureStorageConfig = Field(
        default_factory=AzureStorageConfig, description="Azure Storage."
    )
    google: GoogleStorageConfig = Field(
        default_factory=GoogleStorageConfig, description="Google Cloud Storage."
    )

    @model_validator(mode="after")
    def _keys_agree(self) -> StorageConfig:
        if self.web_identity_token_file is not None and self.role_arn is None:
            raise ValueError("web-identity-token-file needs role-arn")
        _check_single_credential(
            {
                "access-key": self.access_key,
                "web-identity-token-file": self.web_identity_token_file,
            }
        )
        if self.encryption not in ("aws:kms", "aws:kms:dsse") and (
            self.kms_key_id is not None or self.bucket_key is not None
        ):
            raise ValueError(
                "kms-key-id and bucket-key are only allowed with KMS encryption; set encryption to "
                "aws:kms or aws:kms:dsse, or remove them"
            )
        return self

    def storage_options(self) -> dict[str, str]:
        """Return the options for `bayou.table(storage_options=...)`."""
        path_style = self.path_style_access
        own = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": in_clear(self.access_key),
            "AWS_SECRET_ACCESS_KEY": in_clear(self.secret_key),
            "AWS_SESSION_TOKEN": in_clear(self.session_token),
            "AWS_ROLE_ARN": self.role_arn,
            "AWS_WEB_IDENTITY_TOKEN_FILE": self.web_identity_token_file,
            "AWS_ROLE_SESSION_NAME": self.role_session_name,
            "AWS_ENDPOINT_URL_STS": self.sts_endpoint,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": None if path_style is None else not path_style,
            "AWS_ALLOW_HTTP": self.allow_http,
            "AWS_SERVER_SIDE_ENCRYPTION": self.encryption,
            "AWS_SSE_KMS_KEY_ID": self.kms_key_id,
            "AWS_SSE_BUCKET_KEY_ENABLED": self.bucket_key,
        }
        return {
            **_set_values(own),
            **self.azure.storage_options(),
            **self.google.storage_options(),
        }


def _check_single_credential(credentials: Mapping[str, object]) -> None:
    configured = [key for key, value in credentials.items() if value is not None]
    if len(configured) > 1:
        raise ValueError(f"{' and '.join(configured)} are both set; keep one of them")


def _set_values(values: Mapping[str, str | bool | None]) -> dict[str, str]:
    return {name: property_text(value) for name, value in values.items() if value is not None}
