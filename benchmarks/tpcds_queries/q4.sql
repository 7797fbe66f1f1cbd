-- Which customers increased their catalog purchases more than those in stores and on the web?
WITH bought AS (
  SELECT
    'store' AS channel, ss_sold_date_sk AS day_sk, ss_customer_sk AS customer_sk,
    ss_ext_sales_price + ss_ext_list_price - ss_ext_wholesale_cost - ss_ext_discount_amt AS amount
  FROM store_sales
  UNION ALL
  SELECT
    'catalog', cs_sold_date_sk, cs_bill_customer_sk,
    cs_ext_sales_price + cs_ext_list_price - cs_ext_wholesale_cost - cs_ext_discount_amt
  FROM catalog_sales
  UNION ALL
  SELECT
    'web', ws_sold_date_sk, ws_bill_customer_sk,
    ws_ext_sales_price + ws_ext_list_price - ws_ext_wholesale_cost - ws_ext_discount_amt
  FROM web_sales
),
growth AS (
  SELECT
    channel, customer_sk,
    sum(amount) FILTER (WHERE d_year >= 2001)
      / nullif(sum(amount) FILTER (WHERE d_year <= 2000), 0) AS factor
  FROM bought
  JOIN date_dim ON d_date_sk = day_sk AND d_year BETWEEN 1998 AND 2002
  GROUP BY channel, customer_sk
)
SELECT
  c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag,
  round(by_catalog.factor, 2) AS catalog_growth,
  round(in_store.factor, 2) AS store_growth,
  round(on_web.factor, 2) AS web_growth
FROM customer
JOIN growth AS by_catalog
  ON by_catalog.customer_sk = c_customer_sk AND by_catalog.channel = 'catalog'
JOIN growth AS in_store
  ON in_store.customer_sk = c_customer_sk AND in_store.channel = 'store'
LEFT JOIN growth AS on_web
  ON on_web.customer_sk = c_customer_sk AND on_web.channel = 'web'
WHERE by_catalog.factor > greatest(in_store.factor, coalesce(on_web.factor, 0))
ORDER BY c_customer_id
LIMIT 100
